// Checking L_Keys and R_Keys.
#pragma once

#include "hca/engine/context.h"

namespace softib::hca {

// What a local key must allow.
enum class LocalUse : u8 { read, write };

// Puts the bytes [address, address + length) of the region named by `lkey` into `ref`. False: unknown key, other PD,
// out of bounds, no local write. (Into the caller's list: a MemoryRef that is returned and copied costs more than the
// check.)
bool check_lkey(Context& context, u32 lkey, u32 pd, u64 address, u64 length, LocalUse use, MemoryRef& ref);

// The same for a remote key: a region or a bound window, with all of `access` (IBV_ACCESS_REMOTE_*); `target` is the
// QP that the request came to.
bool check_rkey(Context& context, u32 rkey, const ipc::Qp& target, u64 address, u64 length, u32 access, MemoryRef& ref);

// LOCAL_INV, and SEND_WITH_INV at the responder: the key is good for nothing afterwards. False: it isn't one that this
// QP may invalidate.
bool invalidate_key(Context& context, u32 key, const ipc::Qp& qp);

// What BIND_MW asks for.
struct Binding {
  u32 window_key;  // the window's present R_Key
  u32 new_key;
  u32 region_key;
  u32 access;
  u64 address;
  u64 length;
};

// False: MW_BIND_ERR.
bool bind_window(Context& context, const ipc::Qp& qp, const Binding& binding);

}  // namespace softib::hca
