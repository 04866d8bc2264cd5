#include "coll/transport/tcp/outgoing.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace softib::coll::tcp {

void Outgoing::add(Send& send) {
  const auto* memory = static_cast<const std::byte*>(send.memory);
  const u64 cost = send.bytes + kept_overhead;
  if (send.bytes <= most_eager && cost <= credit_) {
    credit_ -= cost;
    queue_.push_back({emit({Kind::eager, send.stream, send.bytes, 0}), memory, send.bytes, &send});
    return;
  }
  const u64 token = ++tokens_;
  const bool whole = send.bytes == 0;
  queue_.push_back({emit({Kind::announce, send.stream, send.bytes, token}), nullptr, 0, whole ? &send : nullptr});
  if (!whole) announced_.emplace(token, &send);
}

bool Outgoing::pull(u64 token, u64 receivers_token) {
  const auto at = announced_.find(token);
  if (at == announced_.end()) return false;
  pulled_.push_back({at->second, receivers_token});
  announced_.erase(at);
  return true;
}

bool Outgoing::give_credit(u64 bytes) {
  if (bytes > most_kept - credit_) return false;
  credit_ += bytes;
  return true;
}

void Outgoing::add_piece() {
  const Pulled pulled = pulled_.front();
  pulled_.pop_front();
  Send& send = *pulled.send;
  const auto* from = static_cast<const std::byte*>(send.memory) + send.progress;
  const u64 bytes = std::min(most_piece, send.bytes - send.progress);
  send.progress += bytes;
  const bool last = send.progress == send.bytes;
  queue_.push_back({emit({Kind::data, pulled.token, bytes, 0}), from, bytes, last ? &send : nullptr});
  if (!last) pulled_.push_back(pulled);
}

bool Outgoing::write(int fd, bool& moved) {
  while (!empty()) {
    if (queue_.empty()) add_piece();
    std::array<iovec, 64> parts;
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = gather(parts);
    const ssize_t count = ::sendmsg(fd, &message, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN;
    moved = true;
    advance(static_cast<u64>(count));
  }
  return true;
}

std::size_t Outgoing::gather(std::span<iovec> parts) const {
  std::size_t count = 0;
  u64 skipped = sent_;
  const auto add = [&](const std::byte* from, u64 bytes) {
    const u64 skip = std::min(skipped, bytes);
    skipped -= skip;
    if (bytes > skip) parts[count++] = {const_cast<std::byte*>(from) + skip, bytes - skip};
  };
  for (const Item& item : queue_) {
    if (count + 2 > parts.size()) break;
    add(item.header.data(), item.header.size());
    add(item.data, item.bytes);
  }
  return count;
}

void Outgoing::advance(u64 bytes) {
  sent_ += bytes;
  while (!queue_.empty() && sent_ >= header_bytes + queue_.front().bytes) {
    sent_ -= header_bytes + queue_.front().bytes;
    if (queue_.front().done) queue_.front().done->state = State::done;
    queue_.pop_front();
  }
}

void Outgoing::fail_all() {
  const auto fail = [](Send* send) {
    if (send) send->state = State::failed;
  };
  for (const Item& item : queue_) fail(item.done);
  for (const Pulled& pulled : pulled_) fail(pulled.send);
  for (const auto& [token, send] : announced_) fail(send);
  queue_.clear();
  pulled_.clear();
  announced_.clear();
  sent_ = 0;
}

}  // namespace softib::coll::tcp
