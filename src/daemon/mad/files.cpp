#include "daemon/mad/files.h"

#include <sys/socket.h>
#include <unistd.h>

namespace softib::daemon {

namespace {

constexpr int reads_in_a_row = 64;
constexpr int wanted_buffer = 4 << 20;

}  // namespace

Result<Fd> UmadFiles::add(u32 file) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) return fail(errno);
  Fd own(ends[0]);
  Fd given(ends[1]);
  // A burst of responses need not wait for the program; what the limit cuts off goes to the queue.
  ::setsockopt(own.get(), SOL_SOCKET, SO_SNDBUFFORCE, &wanted_buffer, sizeof wanted_buffer);
  watcher_.watch_umad(file, own.get());
  files_[file].socket = std::move(own);
  return given;
}

void UmadFiles::remove(u32 file) {
  auto found = files_.find(file);
  if (found == files_.end()) return;
  waiting_ -= found->second.queue.size();
  watcher_.forget(found->second.socket.get());
  files_.erase(found);
}

bool UmadFiles::read(u32 file, const Take& take) {
  auto found = files_.find(file);
  if (found == files_.end()) return true;
  for (int i = 0; i < reads_in_a_row; ++i) {
    ipc::UmadFrame frame{};
    ipc::ReceivedFrame incoming = ipc::receive_frame(found->second.socket.get(), frame, buffer_, MSG_DONTWAIT);
    if (incoming.size == 0) return false;
    if (incoming.size < 0) return errno == EAGAIN || errno == EINTR;
    if (incoming.size < static_cast<ssize_t>(sizeof frame) || frame.length > ipc::largest_mad) continue;
    const size_t inside = static_cast<size_t>(incoming.size) - sizeof frame;
    if (!incoming.beside) {
      if (frame.length <= inside) take(frame, std::span(buffer_).first(frame.length));
      continue;
    }
    std::vector<u8> mad(frame.length);
    if (::pread(incoming.beside.get(), mad.data(), mad.size(), 0) == static_cast<ssize_t>(mad.size())) take(frame, mad);
  }
  return true;
}

// True also when it is lost: there is no memory for it, or nobody reads any more.
bool UmadFiles::send(int socket, const ipc::UmadFrame& frame, std::span<const u8> mad) {
  const auto sent = ipc::send_frame(socket, frame, mad, MSG_DONTWAIT);
  return sent || (to_int(sent.error()) != EAGAIN && to_int(sent.error()) != ENOBUFS);
}

void UmadFiles::deliver(u32 file, const ipc::UmadFrame& frame, std::span<const u8> mad) {
  auto found = files_.find(file);
  if (found == files_.end()) return;
  auto& queue = found->second.queue;
  if (queue.empty() && send(found->second.socket.get(), frame, mad)) return;
  if (queue.size() >= longest_queue) return;
  queue.push_back({frame, {mad.begin(), mad.end()}});
  ++waiting_;
}

bool UmadFiles::flush() {
  for (auto& [id, file] : files_) {
    while (!file.queue.empty() && send(file.socket.get(), file.queue.front().frame, file.queue.front().mad)) {
      file.queue.pop_front();
      --waiting_;
    }
  }
  return waiting_ != 0;
}

}  // namespace softib::daemon
