#include "shim/umad_file.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "hca/engine/timers.h"
#include "ipc/protocol.h"
#include "ipc/umad.h"

namespace softib::shim {

namespace {

constexpr size_t old_header = sizeof(ib_user_mad_hdr_old);
constexpr size_t new_header = sizeof(ib_user_mad_hdr);
constexpr size_t segment_size = 256;  // of a message in several

ipc::UmadFrame frame_of(const ib_user_mad_hdr& header, u32 length) {
  ipc::UmadFrame frame{};
  frame.agent = header.id;
  frame.status = header.status;
  frame.timeout_ms = header.timeout_ms;
  frame.retries = header.retries;
  frame.length = length;
  frame.qpn = __builtin_bswap32(header.qpn);
  frame.qkey = __builtin_bswap32(header.qkey);
  frame.lid = __builtin_bswap16(header.lid);
  frame.sl = header.sl;
  frame.path_bits = header.path_bits;
  frame.grh_present = header.grh_present;
  frame.gid_index = header.gid_index;
  frame.hop_limit = header.hop_limit;
  frame.traffic_class = header.traffic_class;
  std::memcpy(frame.gid, header.gid, sizeof frame.gid);
  frame.flow_label = __builtin_bswap32(header.flow_label);
  frame.pkey_index = header.pkey_index;
  return frame;
}

ib_user_mad_hdr header_of(const ipc::UmadFrame& frame, size_t header_size) {
  ib_user_mad_hdr header{};
  header.id = frame.agent;
  header.status = frame.status;
  header.timeout_ms = frame.timeout_ms;
  header.retries = frame.retries;
  header.length = static_cast<u32>(header_size) + frame.length;
  header.qpn = __builtin_bswap32(frame.qpn);
  header.qkey = __builtin_bswap32(frame.qkey);
  header.lid = __builtin_bswap16(frame.lid);
  header.sl = frame.sl;
  header.path_bits = frame.path_bits;
  header.grh_present = frame.grh_present;
  header.gid_index = frame.gid_index;
  header.hop_limit = frame.hop_limit;
  header.traffic_class = frame.traffic_class;
  std::memcpy(header.gid, frame.gid, sizeof frame.gid);
  header.flow_label = __builtin_bswap32(frame.flow_label);
  header.pkey_index = frame.pkey_index;
  return header;
}

// The part of the MAD that fits, from the message or from beside it.
bool fetch(const ipc::ReceivedFrame& received, const ipc::UmadFrame& frame, u8* mad, size_t room) {
  if (frame.length <= ipc::inline_mad) return received.size >= static_cast<ssize_t>(sizeof frame);
  const size_t wanted = std::min<size_t>(frame.length, room);
  return received.beside && ::pread(received.beside.get(), mad, wanted, 0) == static_cast<ssize_t>(wanted);
}

Result<Fd> open_at_daemon(hca::Session& in, DeviceNode node, u32& id) {
  Fd socket;
  const u32 issm = node.kind == DeviceKind::issm;
  auto reply = in.client().call_fd<ipc::OpenUmad>(0, {node.number, issm}, -1, &socket);
  if (!reply) return fail(reply.error());
  if (!socket) return fail(EIO);
  id = reply->file;
  return socket;
}

}  // namespace

size_t UmadFile::header_size() const { return has_pkey_.load(std::memory_order_relaxed) ? new_header : old_header; }

// -- ioctl

int UmadFile::ioctl(unsigned long request, void* argument) {
  if (is_issm()) return -ENOTTY;
  switch (static_cast<u32>(request)) {
    case static_cast<u32>(IB_USER_MAD_REGISTER_AGENT):
      return argument ? register_agent(static_cast<ib_user_mad_reg_req*>(argument)) : -EFAULT;
    case static_cast<u32>(IB_USER_MAD_REGISTER_AGENT2):
      return argument ? register_agent2(static_cast<ib_user_mad_reg_req2*>(argument)) : -EFAULT;
    case static_cast<u32>(IB_USER_MAD_UNREGISTER_AGENT):
      return argument ? unregister_agent(static_cast<const u32*>(argument)) : -EFAULT;
    case static_cast<u32>(IB_USER_MAD_ENABLE_PKEY):
      return enable_pkey();
    default:
      return -ENOTTY;
  }
}

int UmadFile::register_agent(ib_user_mad_reg_req* request) {
  ipc::UmadRegister::Request wanted{};
  wanted.file = id_;
  wanted.qpn = request->qpn;
  wanted.mgmt_class = request->mgmt_class;
  wanted.class_version = request->mgmt_class_version;
  wanted.rmpp_version = request->rmpp_version;
  std::memcpy(wanted.oui, request->oui, sizeof wanted.oui);
  static_assert(sizeof request->method_mask == sizeof wanted.methods);
  std::memcpy(wanted.methods, request->method_mask, sizeof wanted.methods);
  auto in = session();
  if (!in) return -EIO;
  auto reply = (*in)->client().call<ipc::UmadRegister>(0, wanted);
  if (!reply) return -to_int(reply.error());
  used_.store(true, std::memory_order_relaxed);
  agents_.fetch_or(1U << (reply->agent & 31), std::memory_order_relaxed);
  request->id = reply->agent;
  return 0;
}

int UmadFile::register_agent2(ib_user_mad_reg_req2* request) {
  if (request->qpn > 1) return -EINVAL;
  if (request->flags & ~u32{IB_USER_MAD_REG_FLAGS_CAP}) {
    request->flags = IB_USER_MAD_REG_FLAGS_CAP;
    return -EINVAL;
  }
  if (request->mgmt_class && request->oui & 0xff000000) return -EINVAL;
  ipc::UmadRegister::Request wanted{};
  wanted.file = id_;
  wanted.qpn = static_cast<u8>(request->qpn);
  wanted.mgmt_class = request->mgmt_class;
  wanted.class_version = request->mgmt_class_version;
  wanted.rmpp_version = request->rmpp_version;
  wanted.user_rmpp = (request->flags & IB_USER_MAD_USER_RMPP) != 0;
  for (int i = 0; i < 3; ++i) wanted.oui[i] = static_cast<u8>(request->oui >> (16 - 8 * i));
  for (int i = 0; i < 2; ++i) wanted.methods[i] = request->method_mask[i];
  auto in = session();
  if (!in) return -EIO;
  auto reply = (*in)->client().call<ipc::UmadRegister>(0, wanted);
  if (!reply) return -to_int(reply.error());
  if (!used_.exchange(true, std::memory_order_relaxed)) has_pkey_.store(true, std::memory_order_relaxed);
  agents_.fetch_or(1U << (reply->agent & 31), std::memory_order_relaxed);
  request->id = reply->agent;
  return 0;
}

int UmadFile::unregister_agent(const u32* number) {
  auto in = session();
  if (!in) return -EIO;
  auto reply = (*in)->client().call<ipc::UmadUnregister>(0, {id_, *number});
  if (!reply) return -to_int(reply.error());
  agents_.fetch_and(~(1U << (*number & 31)), std::memory_order_relaxed);
  return 0;
}

int UmadFile::enable_pkey() {
  if (used_.load(std::memory_order_relaxed)) return -EINVAL;
  has_pkey_.store(true, std::memory_order_relaxed);
  return 0;
}

// -- read and write

ssize_t UmadFile::write(int fd, const void* buffer, size_t size) {
  const size_t head = header_size();
  if (is_issm() || size < head + ipc::shortest_mad || size - head > ipc::largest_mad) return -EINVAL;
  ib_user_mad_hdr header{};
  std::memcpy(&header, buffer, head);
  const ipc::UmadFrame frame = frame_of(header, static_cast<u32>(size - head));
  if (frame.agent >= 32 || !(agents_.load(std::memory_order_relaxed) & 1U << frame.agent)) return -EINVAL;
  const auto sent = ipc::send_frame(fd, frame, {static_cast<const u8*>(buffer) + head, size - head}, 0);
  if (!sent) return to_int(sent.error()) == EPIPE ? -EIO : -to_int(sent.error());
  if (frame.timeout_ms) answer_due_.begin(hca::now_ns());
  return static_cast<ssize_t>(size);
}

int UmadFile::poll_briefly(pollfd& polled) const {
  int ready = 0;
  while (answer_due_.is_on(hca::now_ns()) && (ready = ::poll(&polled, 1, 0)) == 0) ::sched_yield();
  return ready;
}

// The kernel gives EIO at once, for ever. opensm asks again at once, for ever, and writes a line to its log each time,
// until the disk is full; so from the second time on it takes a moment.
ssize_t UmadFile::device_gone() {
  const timespec pause{0, 100'000'000};
  if (gone_.exchange(true, std::memory_order_relaxed)) ::nanosleep(&pause, nullptr);
  return -EIO;
}

ssize_t UmadFile::read(int fd, void* buffer, size_t size) {
  const size_t head = header_size();
  if (is_issm() || size < head) return -EINVAL;
  u8* mad = static_cast<u8*>(buffer) + head;
  const size_t room = size - head;
  ipc::UmadFrame frame{};
  // Looked at first: what the program has no room for stays to be read again.
  const ipc::ReceivedFrame seen = ipc::receive_frame(fd, frame, {mad, room}, MSG_PEEK);
  if (seen.size < 0) return -errno;
  if (seen.size == 0) return device_gone();
  const size_t first = std::min<size_t>(frame.length, segment_size);
  if (room < first) return -EINVAL;
  if (!fetch(seen, frame, mad, room)) return -EIO;
  const ib_user_mad_hdr header = header_of(frame, head);
  std::memcpy(buffer, &header, head);
  if (room < frame.length) return -ENOSPC;
  if (ipc::receive_frame(fd, frame, {}, MSG_DONTWAIT).size < 0) return -errno;
  return static_cast<ssize_t>(head + frame.length);
}

// -- open

Result<int> open_umad(DeviceNode node, int flags) {
  if (flags & O_DIRECTORY) return fail(ENOTDIR);
  auto in = session();
  if (!in) return fail(in.error());
  u32 id = 0;
  auto socket = open_at_daemon(**in, node, id);
  while (!socket && to_int(socket.error()) == EAGAIN && !(flags & O_NONBLOCK)) {
    const timespec pause{0, 20'000'000};  // until the other closes the issm node
    if (::nanosleep(&pause, nullptr) != 0) return fail(EINTR);
    socket = open_at_daemon(**in, node, id);
  }
  if (!socket) {
    if (to_int(socket.error()) == EIO) tell_lost_daemon();
    return fail(socket.error());
  }
  if (flags & O_NONBLOCK) ::fcntl(socket->get(), F_SETFL, O_NONBLOCK);
  std::unique_ptr<File> file(new (std::nothrow) UmadFile(node, id));
  if (!file) return fail(ENOMEM);
  return hand_over(std::move(*socket), FdClass::umad, std::move(file), (flags & O_CLOEXEC) != 0);
}

}  // namespace softib::shim
