#include "cm_file.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace conformance {

namespace {

constexpr std::array event_names{"ADDR_RESOLVED",   "ADDR_ERROR",       "ROUTE_RESOLVED", "ROUTE_ERROR",
                                 "CONNECT_REQUEST", "CONNECT_RESPONSE", "CONNECT_ERROR",  "UNREACHABLE",
                                 "REJECTED",        "ESTABLISHED",      "DISCONNECTED",   "DEVICE_REMOVAL",
                                 "MULTICAST_JOIN",  "MULTICAST_ERROR",  "ADDR_CHANGE",    "TIMEWAIT_EXIT"};

constexpr u8 filler = 0x5a;

}  // namespace

std::string errno_name(int error) {
  if (error == 0) return "ok";
  const char* name = strerrorname_np(error);
  return name ? name : std::to_string(error);
}

CmFile::CmFile() : fd_(::open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC | O_NONBLOCK)) {
  if (fd_ < 0) throw std::runtime_error("/dev/infiniband/rdma_cm: " + errno_name(errno));
}

void CmFile::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

int CmFile::write(u32 command, const void* request, size_t size, size_t room) {
  std::vector<u8> message(sizeof(rdma_ucm_cmd_hdr) + size);
  const rdma_ucm_cmd_hdr header{command, static_cast<u16>(size), static_cast<u16>(room)};
  std::memcpy(message.data(), &header, sizeof header);
  std::memcpy(message.data() + sizeof header, request, size);
  const ssize_t done = ::write(fd_, message.data(), message.size());
  return done == static_cast<ssize_t>(message.size()) ? 0 : errno;
}

int CmFile::create(u32& id, u16 space, u8 qp_type) {
  rdma_ucm_create_id request{};
  request.uid = ++last_uid_;
  request.ps = space;
  request.qp_type = qp_type;
  rdma_ucm_create_id_resp response{};
  const int error = call(RDMA_USER_CM_CMD_CREATE_ID, request, response);
  id = response.id;
  return error;
}

u32 CmFile::made(u16 space) {
  u32 id = 0;
  if (int error = create(id, space)) throw std::runtime_error("create_id: " + errno_name(error));
  return id;
}

int CmFile::destroy(u32 id, u32* events) {
  rdma_ucm_destroy_id_resp response{};
  const int error = call(RDMA_USER_CM_CMD_DESTROY_ID, rdma_ucm_destroy_id{0, id, 0}, response);
  if (events) *events = response.events_reported;
  return error;
}

int CmFile::bind(u32 id, const sockaddr_storage& address) {
  rdma_ucm_bind request{};
  request.id = id;
  request.addr_size = static_cast<u16>(size_of(address));
  std::memcpy(&request.addr, &address, sizeof request.addr);
  return call(RDMA_USER_CM_CMD_BIND, request);
}

int CmFile::resolve(u32 id, const sockaddr_storage& to, u32 timeout_ms, const sockaddr_storage* from) {
  rdma_ucm_resolve_addr request{};
  request.id = id;
  request.timeout_ms = timeout_ms;
  request.dst_size = static_cast<u16>(size_of(to));
  std::memcpy(&request.dst_addr, &to, sizeof request.dst_addr);
  if (from) {
    request.src_size = static_cast<u16>(size_of(*from));
    std::memcpy(&request.src_addr, from, sizeof request.src_addr);
  }
  return call(RDMA_USER_CM_CMD_RESOLVE_ADDR, request);
}

int CmFile::connect(u32 id, const rdma_ucm_conn_param& given) {
  rdma_ucm_connect request{};
  request.id = id;
  request.conn_param = given;
  return call(RDMA_USER_CM_CMD_CONNECT, request);
}

int CmFile::accept(u32 id, const rdma_ucm_conn_param& given, u64 uid) {
  rdma_ucm_accept request{};
  request.id = id;
  request.uid = uid;
  request.conn_param = given;
  return call(RDMA_USER_CM_CMD_ACCEPT, request);
}

int CmFile::reject(u32 id, u8 reason, u8 private_data_len) {
  rdma_ucm_reject request{};
  request.id = id;
  request.reason = reason;
  request.private_data_len = private_data_len;
  std::memset(request.private_data, filler, sizeof request.private_data);
  return call(RDMA_USER_CM_CMD_REJECT, request);
}

int CmFile::option(u32 id, u32 level, u32 name, const void* value, u32 size) {
  return call(RDMA_USER_CM_CMD_SET_OPTION, rdma_ucm_set_option{reinterpret_cast<u64>(value), id, level, name, size});
}

int CmFile::join(u32 id, const sockaddr_storage& address, u16 flags, u32& group) {
  rdma_ucm_join_mcast request{};
  request.id = id;
  request.uid = ++last_uid_;
  request.addr_size = static_cast<u16>(size_of(address));
  request.join_flags = flags;
  std::memcpy(&request.addr, &address, sizeof request.addr);
  rdma_ucm_create_id_resp response{};
  const int error = call(RDMA_USER_CM_CMD_JOIN_MCAST, request, response);
  group = response.id;
  return error;
}

int CmFile::leave(u32 group) {
  rdma_ucm_destroy_id_resp response{};
  return call(RDMA_USER_CM_CMD_LEAVE_MCAST, rdma_ucm_destroy_id{0, group, 0}, response);
}

int CmFile::migrate_from(int fd, u32 id, u32* events) {
  rdma_ucm_migrate_resp response{};
  const int error = call(RDMA_USER_CM_CMD_MIGRATE_ID, rdma_ucm_migrate_id{0, id, static_cast<u32>(fd)}, response);
  if (events) *events = response.events_reported;
  return error;
}

CmEvent CmFile::event(int wait_ms) {
  CmEvent event;
  pollfd polled{fd_, POLLIN, 0};
  if (::poll(&polled, 1, wait_ms) == 0) {
    event.words = "nothing";
    return event;
  }
  if (const int error = call(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, event.response)) {
    event.words = errno_name(error);
    return event;
  }
  event.came = true;
  const u32 what = event.response.event;
  event.words = what < event_names.size() ? event_names[what] : std::to_string(what);
  event.words += " " + std::to_string(static_cast<int>(event.response.status));
  return event;
}

sockaddr_storage address_of(const std::string& text, u16 port) {
  sockaddr_storage storage{};
  sockaddr_in in{};
  sockaddr_in6 in6{};
  if (inet_pton(AF_INET, text.c_str(), &in.sin_addr) == 1) {
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&storage, &in, sizeof in);
  } else if (inet_pton(AF_INET6, text.c_str(), &in6.sin6_addr) == 1) {
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(port);
    std::memcpy(&storage, &in6, sizeof in6);
  } else {
    throw std::runtime_error("no address: " + text);
  }
  return storage;
}

u32 size_of(const sockaddr_storage& address) {
  return address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

rdma_ucm_conn_param parameters(u8 private_data_len) {
  // Each its own: a queue pair that the other end still takes for another connection's is refused.
  static u32 last_qpn = static_cast<u32>(::getpid()) << 10;
  rdma_ucm_conn_param p{};
  p.qp_num = ++last_qpn & 0xffffff;
  p.responder_resources = p.initiator_depth = 1;
  p.retry_count = p.rnr_retry_count = 7;
  p.private_data_len = private_data_len;
  std::memset(p.private_data, filler, sizeof p.private_data);
  p.valid = 1;
  return p;
}

}  // namespace conformance
