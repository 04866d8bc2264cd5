// The commands of an open file: one table, and those that are about ids themselves.
#include <algorithm>
#include <array>
#include <cstring>

#include "daemon/rdma_cm/answer.h"
#include "daemon/rdma_cm/path_record.h"
#include "daemon/rdma_cm/service.h"

namespace softib::daemon {

namespace {

template <typename Request>
Request read(const RdmaCm::Command& command) {
  Request request{};
  std::memcpy(&request, command.in.data(), std::min(command.in.size(), sizeof request));
  return request;
}

// The space and kind of queue pair that a program names.
Result<std::pair<PortSpace, IdQpType>> kind_of(const rdma_ucm_create_id& request) {
  switch (request.ps) {
    case RDMA_PS_TCP:
      return std::pair{PortSpace::tcp, IdQpType::rc};
    case RDMA_PS_UDP:
      return std::pair{PortSpace::udp, IdQpType::ud};
    case RDMA_PS_IPOIB:
      return std::pair{PortSpace::ipoib, IdQpType::ud};
    case RDMA_PS_IB:
      return std::pair{PortSpace::ib, static_cast<IdQpType>(request.qp_type)};
    default:
      return fail(EINVAL);
  }
}

}  // namespace

struct RdmaCm::Row {
  u32 number;
  Result<u32> (*call)(RdmaCm&, const Command&);
};

const RdmaCm::Row* RdmaCm::find_row(u32 number) {
  const auto row =
      []<typename Request, auto method>(u32 command, const Request*, std::integral_constant<decltype(method), method>) {
    return Row{command,
               [](RdmaCm& service, const Command& given) { return (service.*method)(given, read<Request>(given)); }};
  };
#define SOFTIB_ROW(command, request, method)                            \
  row(RDMA_USER_CM_CMD_##command, static_cast<const request*>(nullptr), \
      std::integral_constant<decltype(&RdmaCm::method), &RdmaCm::method>{})
  static const std::array table{
      SOFTIB_ROW(CREATE_ID, rdma_ucm_create_id, create_id),
      SOFTIB_ROW(DESTROY_ID, rdma_ucm_destroy_id, destroy_id),
      SOFTIB_ROW(BIND_IP, rdma_ucm_bind_ip, bind_ip),
      SOFTIB_ROW(RESOLVE_IP, rdma_ucm_resolve_ip, resolve_ip),
      SOFTIB_ROW(RESOLVE_ROUTE, rdma_ucm_resolve_route, resolve_route),
      SOFTIB_ROW(QUERY_ROUTE, rdma_ucm_query, query_route),
      SOFTIB_ROW(CONNECT, rdma_ucm_connect, connect),
      SOFTIB_ROW(LISTEN, rdma_ucm_listen, listen),
      SOFTIB_ROW(ACCEPT, rdma_ucm_accept, accept),
      SOFTIB_ROW(REJECT, rdma_ucm_reject, reject),
      SOFTIB_ROW(DISCONNECT, rdma_ucm_disconnect, disconnect),
      SOFTIB_ROW(INIT_QP_ATTR, rdma_ucm_init_qp_attr, init_qp_attributes),
      SOFTIB_ROW(GET_EVENT, rdma_ucm_get_event, get_event),
      SOFTIB_ROW(SET_OPTION, rdma_ucm_set_option, set_option),
      SOFTIB_ROW(NOTIFY, rdma_ucm_notify, notify),
      SOFTIB_ROW(JOIN_IP_MCAST, rdma_ucm_join_ip_mcast, join_ip),
      SOFTIB_ROW(LEAVE_MCAST, rdma_ucm_destroy_id, leave),
      SOFTIB_ROW(MIGRATE_ID, rdma_ucm_migrate_id, migrate_id),
      SOFTIB_ROW(QUERY, rdma_ucm_query, query),
      SOFTIB_ROW(BIND, rdma_ucm_bind, bind_address),
      SOFTIB_ROW(RESOLVE_ADDR, rdma_ucm_resolve_addr, resolve_address),
      SOFTIB_ROW(JOIN_MCAST, rdma_ucm_join_mcast, join),
  };
#undef SOFTIB_ROW
  for (const Row& candidate : table)
    if (candidate.number == number) return &candidate;
  return nullptr;
}

Result<u32> RdmaCm::carry_out(const Command& command) {
  const Row* row = find_row(command.number);
  if (!row) return fail(ENOSYS);
  if (!files_.contains(command.file)) return fail(EBADF);
  now_ = command.now;
  return row->call(*this, command);
}

Result<u32> RdmaCm::create_id(const Command& command, const rdma_ucm_create_id& request) {
  const auto kind = kind_of(request);
  if (!kind) return fail(kind.error());
  Id* id = add_id(command.file);
  id->uid = request.uid;
  std::tie(id->space, id->qp_type) = *kind;
  return answer(command.out, rdma_ucm_create_id_resp{id->handle});
}

// Also of an id whose device has gone.
Result<u32> RdmaCm::destroy_id(const Command& command, const rdma_ucm_destroy_id& request) {
  Id* id = find(request.id);
  if (!id) return fail(ENOENT);
  if (id->file != command.file) return fail(EINVAL);
  const u32 reported = id->events_reported;
  destroy(request.id, command.now);
  return answer(command.out, rdma_ucm_destroy_id_resp{reported});
}

Result<u32> RdmaCm::get_event(const Command& command, const rdma_ucm_get_event&) {
  File& file = files_.at(command.file);
  if (file.events.empty()) return fail(EAGAIN);
  const QueuedEvent event = file.events.front();
  file.events.pop_front();
  outside_.set_readable(command.file, !file.events.empty());
  Id& id = ids_.at(event.id);
  ++id.events_reported;
  if (event.response.event == static_cast<u32>(Event::connect_request)) ++id.backlog;
  if (event.multicast) ++multicasts_.at(event.multicast).events_reported;
  return answer(command.out, event.response);
}

// Events go along, in their order. Of a listener these may be requests; the ids that they name stay where they are, as
// in the kernel.
Result<u32> RdmaCm::migrate_id(const Command& command, const rdma_ucm_migrate_id& request) {
  auto from = files_.find(command.other_file);
  if (from == files_.end()) return fail(EINVAL);
  Id* id = find(request.id);
  if (!id) return fail(ENOENT);
  if (id->file != command.other_file) return fail(EINVAL);
  if (command.other_file == command.file) return answer(command.out, rdma_ucm_migrate_resp{id->events_reported});
  File& to = files_.at(command.file);
  std::erase_if(from->second.events, [&](const QueuedEvent& event) {
    if (event.id != id->handle) return false;
    to.events.push_back(event);
    return true;
  });
  from->second.ids.erase(id->handle);
  to.ids.insert(id->handle);
  id->file = command.file;
  outside_.set_readable(command.other_file, !from->second.events.empty());
  outside_.set_readable(command.file, !to.events.empty());
  return answer(command.out, rdma_ucm_migrate_resp{id->events_reported});
}

// -- options

Result<u32> RdmaCm::set_option(const Command& command, const rdma_ucm_set_option& request) {
  auto id = find(command, request.id);
  if (!id) return fail(id.error());
  Result<void> done = fail(ENOSYS);
  if (request.level == RDMA_OPTION_ID) done = set_id_option(**id, request.optname, command.extra);
  if (request.level == RDMA_OPTION_IB && request.optname == RDMA_OPTION_IB_PATH) done = set_path(**id, command.extra);
  return done ? Result<u32>(0U) : fail(done.error());
}

Result<void> RdmaCm::set_id_option(Id& id, u32 name, std::span<const u8> value) {
  const auto number = [value] {
    i32 read = 0;
    std::memcpy(&read, value.data(), sizeof read);
    return read;
  };
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      if (value.size() != sizeof(u8)) return fail(EINVAL);
      id.tos = value[0];
      return {};
    case RDMA_OPTION_ID_REUSEADDR:
      if (value.size() != sizeof(i32)) return fail(EINVAL);
      if (id.state != IdState::idle && (number() == 0 || id.state == IdState::listen)) return fail(EINVAL);
      id.reuse = number() != 0;
      return {};
    case RDMA_OPTION_ID_AFONLY:
      if (value.size() != sizeof(i32)) return fail(EINVAL);
      if (id.state != IdState::idle && id.state != IdState::address_bound) return fail(EINVAL);
      id.only_family = number() != 0;
      id.only_family_set = true;
      return {};
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (value.size() != sizeof(u8) || id.qp_type != IdQpType::rc) return fail(EINVAL);
      id.ack_timeout = value[0];
      return {};
    default:
      return fail(ENOSYS);
  }
}

// A path that the program knows already, in place of a question to the SA.
Result<void> RdmaCm::set_path(Id& id, std::span<const u8> value) {
  if (value.size() % sizeof(ib_path_rec_data) != 0 || id.port == 0) return fail(EINVAL);
  constexpr u32 wanted = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  ib_path_rec_data found{};
  for (size_t at = 0; at < value.size() && found.flags != wanted; at += sizeof found)
    std::memcpy(&found, value.data() + at, sizeof found);
  if (found.flags != wanted || id.state != IdState::address_resolved) return fail(EINVAL);
  id.paths = {
      read_path(std::span(reinterpret_cast<const u8*>(found.path_rec), sizeof found.path_rec), on_ethernet(id.port))};
  id.state = IdState::route_resolved;
  tell(id, Event::route_resolved);
  return {};
}

}  // namespace softib::daemon
