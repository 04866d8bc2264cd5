#include "daemon/rdma_cm/port_spaces.h"

#include <algorithm>

namespace softib::daemon {

namespace {

constexpr u16 first_any = 32768;  // net.ipv4.ip_local_port_range
constexpr u16 last_any = 60999;

Result<void> check_others(const std::vector<PortSpaces::Binding>& others, const PortSpaces::Binding& binding,
                          bool reuse) {
  for (const auto& other : others) {
    if (other.id == binding.id || (reuse && other.reuse)) continue;
    if (binding.only_family && other.only_family && binding.address.family != other.address.family) continue;
    if (binding.address.is_any() || other.address.is_any()) return fail(EADDRNOTAVAIL);
    if (binding.address.same_place(other.address)) return fail(EADDRINUSE);
  }
  return {};
}

}  // namespace

Result<u16> PortSpaces::any_port(PortSpace space) {
  constexpr u32 count = last_any - first_any + 1;
  const u32 start = std::uniform_int_distribution<u32>(0, count - 1)(random_);
  for (u32 i = 0; i < count; ++i) {
    const auto port = static_cast<u16>(first_any + (start + i) % count);
    if (!bindings_.contains({space, port})) return port;
  }
  return fail(EADDRNOTAVAIL);
}

Result<u16> PortSpaces::bind(PortSpace space, const Binding& binding) {
  u16 port = binding.address.port;
  if (port == 0) {
    auto free = any_port(space);
    if (!free) return free;
    port = *free;
  } else if (auto found = bindings_.find({space, port}); found != bindings_.end()) {
    if (auto alone = check_others(found->second, binding, binding.reuse); !alone) return fail(alone.error());
  }
  bindings_[{space, port}].push_back(binding);
  return port;
}

void PortSpaces::release(PortSpace space, u16 port, u32 id) {
  auto found = bindings_.find({space, port});
  if (found == bindings_.end()) return;
  std::erase_if(found->second, [id](const Binding& binding) { return binding.id == id; });
  if (found->second.empty()) bindings_.erase(found);
}

Result<void> PortSpaces::listen(PortSpace space, u16 port, u32 id) {
  auto found = bindings_.find({space, port});
  if (found == bindings_.end()) return fail(EINVAL);
  auto own = std::find_if(found->second.begin(), found->second.end(), [id](const Binding& b) { return b.id == id; });
  if (own == found->second.end()) return fail(EINVAL);
  if (auto alone = check_others(found->second, *own, false); !alone) return alone;
  own->listens = true;
  own->reuse = false;
  return {};
}

std::vector<u32> PortSpaces::listeners(PortSpace space, u16 port) const {
  std::vector<u32> ids;
  if (auto found = bindings_.find({space, port}); found != bindings_.end())
    for (const Binding& binding : found->second)
      if (binding.listens) ids.push_back(binding.id);
  return ids;
}

}  // namespace softib::daemon
