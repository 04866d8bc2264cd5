// What programs read of a host's files: the sysfs trees, and the counters in them.
#include <cstring>

#include "daemon/control.h"

namespace softib::daemon {

namespace {

template <size_t N>
std::string_view text_of(const char (&field)[N]) {
  return {field, ::strnlen(field, N)};
}

}  // namespace

Result<u32> Control::host_for_programs(std::string_view name, pid_t pid) const {
  auto host = fabric::find_host(fabric_, name);
  if (!host) return fail(ENODEV);
  const bool is_ours = aggregation_ && aggregation_->is_for(pid, *host);
  if (fabric_.hosts[*host].kind == fabric::HostKind::aggregation && !is_ours) return fail(EPERM);
  return *host;
}

Result<ipc::PrepareHost::Reply> Control::prepare_host(Caller& caller, const ipc::PrepareHost::Request& request) {
  auto host = host_for_programs(text_of(request.host), caller.peer.pid);
  if (!host) return fail(host.error());
  if (faults_ && faults_->is_off(*host)) return fail(EHOSTDOWN);
  if (auto ready = trees_.prepare(*host); !ready) return fail(ready.error());
  return ipc::PrepareHost::Reply{keeper_ ? keeper_->kind() : ipc::PlaceKind::plain, *host};
}

Result<ipc::ReadCounter::Reply> Control::read_counter(Caller&, const ipc::ReadCounter::Request& request) {
  if (request.counter >= ipc::PortCounter::end) return fail(EINVAL);
  if (!plane_) return fail(EOPNOTSUPP);
  auto host = fabric::find_host(fabric_, text_of(request.host));
  const u32 device = host ? device_named(*host, text_of(request.device)) : 0;
  if (!device || request.port < 1 || request.port > world_.device(device).port_count) return fail(ENODEV);
  return ipc::ReadCounter::Reply{plane_->counter(world_.device(device).first_port + request.port - 1, request.counter)};
}

// 0: there is none.
u32 Control::device_named(u32 host, std::string_view name) const {
  const ipc::Segment& segment = file_->segment();
  for (u32 i = 1; i <= segment.header.device_count && i < ipc::max_devices; ++i)
    if (segment.devices[i].host == host && text_of(segment.devices[i].name) == name) return i;
  return 0;
}

}  // namespace softib::daemon
