// Memory regions and memory windows.
#pragma once

#include <unordered_map>
#include <vector>

#include "daemon/objects/contexts.h"
#include "daemon/objects/index_pool.h"
#include "daemon/objects/pds.h"
#include "hca/rules/bits.h"
#include "ipc/protocol.h"

namespace softib::daemon {

struct KeyObject {
  u32 context;
  u32 pd;
  ipc::KeyKind kind;
  u32 creator;  // process slot
};

class Keys {
 public:
  Keys(World& world, Pds& pds);

  struct Owner {
    u32 slot;
    u32 generation;
  };

  Result<u32> reg(u32 context, Owner owner, const ipc::RegMr::Request& request);
  // A new translation gets a new key, so that nobody mixes old and new while it changes. Rights and PD change in place,
  // under the same key, as hardware does it.
  Result<void> rereg(u32 id, Owner owner, hca::RemapFlag flags, const ipc::RegMr::Request& to);
  // EINVAL while windows are bound to it (IBTA 10.6.7.2.6).
  Result<void> dereg(u32 id);

  Result<u32> alloc_window(u32 context, u32 creator, u32 pd, u32 type);
  Result<void> free_window(u32 id);

  // Without asking: its context goes.
  void drop(u32 id);
  // No key reaches the memory of a process that died.
  void disable_all_of(u32 slot);
  // Type 2 windows go free with the QP that bound them.
  void unbind_from(const ContextObject& context, u32 qpn);

  [[nodiscard]] KeyObject* find(u32 id);
  [[nodiscard]] u32 value(u32 id) const;  // the key that programs use
  [[nodiscard]] const std::unordered_map<u32, KeyObject>& all() const { return keys_; }

 private:
  Result<u32> add(u32 context, u32 creator, u32 pd, ipc::KeyKind kind);
  [[nodiscard]] u32 next_value(u32 id);
  void release_window(ipc::Key& window);

  World& world_;
  Pds& pds_;
  IndexPool indices_;
  std::vector<u8> tags_;  // low byte of the last key of each index
  std::unordered_map<u32, KeyObject> keys_;
  u32 regions_ = 0;
  u32 windows_ = 0;
};

}  // namespace softib::daemon
