#include "daemon/objects/keys.h"

#include <algorithm>

#include "hca/limits.h"
#include "hca/rules/access.h"

namespace softib::daemon {

namespace {

using hca::AccessBits;
using hca::RemapFlag;
using ipc::KeyKind;

constexpr u32 key_rest = 4096;

Result<void> check_region(const ipc::RegMr::Request& request) {
  auto access = static_cast<AccessBits>(request.access);
  if (auto allowed = hca::check_access(access); !allowed) return allowed;
  return hca::check_range(access, request.address, request.length, request.iova);
}

// While the key is 0: nobody reads the rest.
void set_translation(ipc::Key& key, Keys::Owner owner, const ipc::RegMr::Request& request) {
  key.owner = owner.slot;
  key.owner_generation = owner.generation;
  key.iova = request.iova;
  key.length = request.length;
  key.address = request.address;
  key.shared_begin = request.shared_begin;
  key.shared_end = std::max(request.shared_end, request.shared_begin);
}

void publish(ipc::Key& key, u32 value) { key.key.store(value, std::memory_order_release); }

void invalidate(ipc::Key& key) {
  key.key.store(0, std::memory_order_seq_cst);  // before anything that changes behind it
}

}  // namespace

Keys::Keys(World& world, Pds& pds) : world_(world), pds_(pds), indices_(1, ipc::max_keys, key_rest) {}

KeyObject* Keys::find(u32 id) {
  auto found = keys_.find(id);
  return found == keys_.end() ? nullptr : &found->second;
}

u32 Keys::value(u32 id) const { return world_.segment.keys[id].key.load(std::memory_order_relaxed); }

u32 Keys::next_value(u32 id) {
  if (tags_.size() <= id) tags_.resize(id + 1);
  return hca::make_key(id, ++tags_[id]);
}

Result<u32> Keys::add(u32 context, u32 creator, u32 pd, KeyKind kind) {
  u32& count = kind == KeyKind::region ? regions_ : windows_;
  if (count >= (kind == KeyKind::region ? hca::limits::max_mr : hca::limits::max_mw)) return fail(ENOMEM);
  u32 id = indices_.take();
  if (!id) return fail(ENOMEM);
  ++count;
  keys_.emplace(id, KeyObject{context, pd, kind, creator});
  pds_.use(pd);
  ipc::Key& key = world_.segment.keys[id];
  World::wipe(key);
  key.kind = kind;
  key.pd = pd;
  key.context = context;
  return id;
}

Result<u32> Keys::reg(u32 context, Owner owner, const ipc::RegMr::Request& request) {
  if (auto fits = check_region(request); !fits) return fail(fits.error());
  auto id = add(context, owner.slot, request.pd, KeyKind::region);
  if (!id) return id;
  ipc::Key& key = world_.segment.keys[*id];
  key.access = request.access;
  set_translation(key, owner, request);
  publish(key, next_value(*id));
  return id;
}

Result<void> Keys::rereg(u32 id, Owner owner, RemapFlag flags, const ipc::RegMr::Request& to) {
  KeyObject& object = keys_.at(id);
  ipc::Key& key = world_.segment.keys[id];
  bool moves = has(flags, RemapFlag::translation);
  auto access = static_cast<AccessBits>(has(flags, RemapFlag::access) ? to.access : key.access);
  if (auto allowed = hca::check_access(access); !allowed) return allowed;
  if (moves)
    if (auto fits = hca::check_range(access, to.address, to.length, to.iova); !fits) return fits;
  if (key.windows.load(std::memory_order_acquire)) return fail(EBUSY);
  if (moves) invalidate(key);
  if (has(flags, RemapFlag::access)) key.access = to.access;
  if (has(flags, RemapFlag::pd)) {
    pds_.use(to.pd);
    pds_.unuse(object.pd);
    key.pd = object.pd = to.pd;
  }
  if (moves) {
    set_translation(key, owner, to);
    publish(key, next_value(id));
  }
  return {};
}

Result<void> Keys::dereg(u32 id) {
  if (world_.segment.keys[id].windows.load(std::memory_order_acquire)) return fail(EBUSY);
  drop(id);
  return {};
}

Result<u32> Keys::alloc_window(u32 context, u32 creator, u32 pd, u32 type) {
  constexpr u32 type_1 = 1;
  constexpr u32 type_2 = 2;
  if (type != type_1 && type != type_2) return fail(EINVAL);
  auto id = add(context, creator, pd, type == type_1 ? KeyKind::window1 : KeyKind::window2);
  if (id) publish(world_.segment.keys[*id], next_value(*id));
  return id;
}

Result<void> Keys::free_window(u32 id) {
  drop(id);
  return {};
}

void Keys::release_window(ipc::Key& window) {
  if (!window.bound) return;
  ipc::Key& region = world_.segment.keys[window.region & (ipc::max_keys - 1)];
  // A window that outlives its region (both go with their context) must not count below zero.
  u32 bound = region.windows.load(std::memory_order_relaxed);
  while (bound && !region.windows.compare_exchange_weak(bound, bound - 1)) continue;
  window.bound = 0;
}

void Keys::drop(u32 id) {
  auto found = keys_.find(id);
  if (found == keys_.end()) return;
  ipc::Key& key = world_.segment.keys[id];
  // Binding moves a window's tag on; the index's next key must differ from the last one seen.
  if (u32 last = value(id)) tags_[id] = static_cast<u8>(last);
  invalidate(key);
  release_window(key);
  --(found->second.kind == KeyKind::region ? regions_ : windows_);
  pds_.unuse(found->second.pd);
  keys_.erase(found);
  world_.limbo.add([this, id] { indices_.give_back(id); });
}

void Keys::disable_all_of(u32 slot) {
  for (auto& [id, object] : keys_) {
    ipc::Key& key = world_.segment.keys[id];
    if (object.creator == slot || key.owner == slot) invalidate(key);
  }
}

void Keys::unbind_from(const ContextObject& context, u32 qpn) {
  for (u32 id : context.of(ipc::ObjectKind::mw)) {
    ipc::Key& window = world_.segment.keys[id];
    if (window.kind == KeyKind::window2 && window.bound && window.qpn == qpn) release_window(window);
  }
}

}  // namespace softib::daemon
