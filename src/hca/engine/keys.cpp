#include "hca/engine/keys.h"

#include "hca/engine/verbs.h"

namespace softib::hca {

namespace {

using ipc::Key;
using ipc::KeyKind;

Key& record_of(Context& context, u32 key) { return context.segment.keys[(key >> 8) & (ipc::max_keys - 1)]; }

// Bounds as IBTA has them, without overflow at either end.
bool covers(const Key& key, u64 address, u64 length) {
  return address >= key.iova && length <= key.length && address - key.iova <= key.length - length;
}

void refer(const Key& key, u64 address, u64 length, MemoryRef& ref) {
  ref.slot = key.owner;
  ref.generation = key.owner_generation;
  ref.address = key.address + (address - key.iova);
  ref.length = length;
  ref.shared_begin = key.shared_begin;
  ref.shared_end = key.shared_end;
  ref.may_fault = (key.access & access_on_demand) != 0;
}

// Reads the record between two looks at its key: who changes a record makes its key 0 first.
template <typename Check>
bool look_up(Context& context, u32 key, u64 address, u64 length, MemoryRef& ref, Check allowed) {
  Key& record = record_of(context, key);
  if (key == 0 || record.key.load(std::memory_order_acquire) != key) return false;
  if (!allowed(record) || !covers(record, address, length)) return false;
  refer(record, address, length, ref);
  std::atomic_thread_fence(std::memory_order_acquire);
  return record.key.load(std::memory_order_relaxed) == key;
}

bool belongs(const Key& record, const ipc::Qp& target) {
  return record.kind == KeyKind::window2 ? record.qpn == target.qpn : record.pd == target.pd;
}

void release_region(Context& context, Key& window) {
  if (window.bound && window.region) context.segment.keys[window.region & (ipc::max_keys - 1)].windows.fetch_sub(1);
  window.bound = 0;
  window.region = 0;
}

// IBTA 10.6.7.2.2: what the region must allow for the window's rights.
bool region_permits(const Key& region, const Binding& binding, u32 pd) {
  if (region.kind != KeyKind::region || region.pd != pd || !(region.access & access_mw_bind)) return false;
  constexpr u32 writing = access_remote_write | access_remote_atomic;
  if ((binding.access & writing) && !(region.access & access_local_write)) return false;
  return !(binding.access & access_zero_based);
}

bool window_permits(const Key& window, const ipc::Qp& qp, const Binding& binding) {
  if (window.pd != qp.pd) return false;
  if (window.kind == KeyKind::window1) return true;
  // Type 2 is bound from the free state only, and takes the consumer's new key, which must differ.
  return window.kind == KeyKind::window2 && !window.bound && binding.length > 0 &&
         (binding.new_key & 0xff) != (binding.window_key & 0xff);
}

void write_binding(Key& window, const Key& region, const ipc::Qp& qp, const Binding& binding) {
  window.access = binding.access | (region.access & access_on_demand);
  window.qpn = qp.qpn;
  window.owner = region.owner;
  window.owner_generation = region.owner_generation;
  window.iova = binding.address;
  window.length = binding.length;
  window.address = region.address + (binding.address - region.iova);
  window.shared_begin = region.shared_begin;
  window.shared_end = region.shared_end;
}

}  // namespace

bool check_lkey(Context& context, u32 lkey, u32 pd, u64 address, u64 length, LocalUse use, MemoryRef& ref) {
  return look_up(context, lkey, address, length, ref, [&](const Key& record) {
    return record.kind == KeyKind::region && record.pd == pd &&
           (use == LocalUse::read || (record.access & access_local_write));
  });
}

bool check_rkey(Context& context, u32 rkey, const ipc::Qp& target, u64 address, u64 length, u32 access,
                MemoryRef& ref) {
  return look_up(context, rkey, address, length, ref, [&](const Key& record) {
    if (record.kind != KeyKind::region && !record.bound) return false;
    return belongs(record, target) && (record.access & access) == access;
  });
}

bool invalidate_key(Context& context, u32 key, const ipc::Qp& qp) {
  Key& record = record_of(context, key);
  if (key == 0 || record.key.load(std::memory_order_acquire) != key) return false;
  if (record.kind == KeyKind::region) {
    if (record.pd != qp.pd || record.windows.load(std::memory_order_acquire)) return false;
    // A region of ibv_reg_mr can't be made valid again; what is asked for is that the key stops working.
    record.key.store(0, std::memory_order_release);
    return true;
  }
  if (record.kind != KeyKind::window2 || !record.bound || record.qpn != qp.qpn) return false;
  // The window keeps its key while free, for the next bind to name it; `bound` makes it useless for access.
  release_region(context, record);
  return true;
}

bool bind_window(Context& context, const ipc::Qp& qp, const Binding& binding) {
  Key& window = record_of(context, binding.window_key);
  Key& region = record_of(context, binding.region_key);
  if (window.key.load(std::memory_order_acquire) != binding.window_key || binding.window_key == 0) return false;
  if (!window_permits(window, qp, binding)) return false;
  u32 new_key = (binding.window_key & ~0xffU) | (binding.new_key & 0xff);
  if (binding.length == 0) {  // type 1: unbinds
    window.key.store(0, std::memory_order_release);
    release_region(context, window);
    window.key.store(new_key, std::memory_order_release);
    return true;
  }
  if (region.key.load(std::memory_order_acquire) != binding.region_key || binding.region_key == 0) return false;
  if (!region_permits(region, binding, qp.pd) || !covers(region, binding.address, binding.length)) return false;
  window.key.store(0, std::memory_order_release);
  release_region(context, window);
  write_binding(window, region, qp, binding);
  region.windows.fetch_add(1);
  window.region = binding.region_key >> 8;
  window.bound = 1;
  window.key.store(new_key, std::memory_order_release);
  return true;
}

}  // namespace softib::hca
