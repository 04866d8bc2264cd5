// Connection management's side of Control: open rdma_cm files and their commands.
#include <algorithm>
#include <cstring>

#include "daemon/control.h"
#include "hca/engine/timers.h"

namespace softib::daemon {

namespace {

template <size_t N>
std::string_view text_of(const char (&field)[N]) {
  return {field, ::strnlen(field, N)};
}

Result<BookedAddress> booked(const ipc::PortAddress& given) {
  constexpr u8 ipv4_bits = 32, ipv6_bits = 128;
  BookedAddress address;
  address.pkey = given.pkey;
  if (given.family == 4 && given.prefix <= ipv4_bits) {
    address.ip = ip_of(static_cast<u32>(wire::get(given.address, {0, ipv4_bits})));
    address.prefix = static_cast<u8>(ipv6_bits - ipv4_bits + given.prefix);
    return address;
  }
  if (given.family != 6 || given.prefix > ipv6_bits) return fail(EINVAL);
  std::copy(std::begin(given.address), std::end(given.address), address.ip.begin());
  address.prefix = given.prefix;
  return address;
}

}  // namespace

Result<ipc::OpenRdmaCm::Reply> Control::open_rdma_cm(Caller& caller, const ipc::Empty&) {
  const ProcessObject* process = processes_.find(caller.peer.slot);
  auto opened = wires_->open(process->host);
  if (!opened) return fail(opened.error());
  caller.given = std::move(opened->read);
  return ipc::OpenRdmaCm::Reply{opened->file, 0};
}

Result<ipc::RdmaCmCommand::Reply> Control::rdma_cm_command(Caller&, const ipc::RdmaCmCommand::Request& request) {
  using Call = ipc::RdmaCmCommand;
  if (request.size > Call::most_in || request.extra_size > Call::most_extra || request.room > Call::most_out)
    return fail(EINVAL);
  Call::Reply reply{};
  RdmaCm::Command command;
  command.file = request.file;
  command.number = request.command;
  command.in = {request.in, request.size};
  command.extra = {request.extra, request.extra_size};
  command.other_file = request.other_file;
  command.out = {reply.out, request.room};
  command.now = hca::now_ns();
  settle();  // ports as they are
  auto size = wires_->carry_out(command);
  if (!size) return fail(size.error());
  reply.size = *size;
  return reply;
}

Result<ipc::Empty> Control::set_addresses(Caller& caller, const ipc::SetAddresses::Request& request) {
  if (!caller.peer.is_tool) return fail(EPERM);
  auto host = fabric::find_host(fabric_, text_of(request.host));
  const u32 device = host ? device_named(*host, text_of(request.device)) : 0;
  if (!device || request.port < 1 || request.port > world_.device(device).port_count) return fail(ENODEV);
  if (request.count > ipc::SetAddresses::most) return fail(EINVAL);
  std::vector<BookedAddress> addresses;
  for (const ipc::PortAddress& given : std::span(request.addresses).first(request.count)) {
    auto address = booked(given);
    if (!address) return fail(address.error());
    addresses.push_back(*address);
  }
  wires_->service().addresses().set(world_.port_index(device, static_cast<u8>(request.port)), std::move(addresses));
  return ipc::Empty{};
}

void Control::rdma_cm_unread(u32 file, u64 now) { wires_->unread(file, now); }

}  // namespace softib::daemon
