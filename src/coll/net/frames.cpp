#include "coll/net/frames.h"

#include <sys/socket.h>

#include <algorithm>

#include "base/error_text.h"
#include "coll/net/sockets.h"

namespace softib::coll {

Bytes make_frame(u16 type, std::span<const std::byte> body) {
  Bytes frame;
  frame.reserve(frame_header_bytes + body.size());
  ByteWriter to(frame);
  to.number(frame_magic);
  to.number(type);
  to.number(u16{0});
  to.number(static_cast<u32>(body.size()));
  to.bytes(body);
  return frame;
}

std::optional<Frame> FrameReader::next() {
  const auto unread = std::span(kept_).subspan(used_);
  if (broken_ || unread.size() < frame_header_bytes) return std::nullopt;
  ByteReader header(unread.first(frame_header_bytes));
  const u32 magic = header.number<u32>();
  const u16 type = header.number<u16>();
  const u16 zero = header.number<u16>();
  const u32 length = header.number<u32>();
  broken_ = magic != frame_magic || zero != 0 || length > limit_;
  if (broken_ || unread.size() - frame_header_bytes < length) return std::nullopt;
  const auto body = unread.subspan(frame_header_bytes, length);
  Frame frame{type, Bytes(body.begin(), body.end())};
  used_ += frame_header_bytes + length;
  if (used_ == kept_.size()) {
    kept_.clear();
    used_ = 0;
  } else if (used_ > kept_.size() / 2) {
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ = 0;
  }
  return frame;
}

FrameSocket::Stream FrameSocket::receive() {
  constexpr int most_calls = 8;  // then others have their turn
  std::array<std::byte, 65536> buffer;
  for (int i = 0; i < most_calls; ++i) {
    const ssize_t count = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return Stream::open;
    if (count < 0 && error_ == 0) error_ = errno;
    if (count <= 0) return Stream::ended;
    reader_.take(std::span(buffer).first(static_cast<std::size_t>(count)));
    if (static_cast<std::size_t>(count) < buffer.size()) return Stream::open;
  }
  return Stream::open;
}

bool FrameSocket::flush() {
  while (!waiting_.empty()) {
    const Bytes& frame = *waiting_.front();
    const ssize_t count = ::send(fd_.get(), frame.data() + sent_, frame.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN && error_ == 0) error_ = errno;
    if (count < 0) return errno == EAGAIN;
    sent_ += static_cast<std::size_t>(count);
    if (sent_ < frame.size()) continue;
    waiting_.pop_front();
    sent_ = 0;
  }
  return true;
}

std::string FrameSocket::lost_way() const {
  const bool lost = error_ == ETIMEDOUT || error_ == EHOSTUNREACH || error_ == ENETUNREACH || error_ == ENETDOWN;
  return lost ? error_text(error_) : "";
}

bool FrameSocket::all_arrived() const { return waiting_.empty() && unacknowledged_bytes(fd_.get()) == 0; }

}  // namespace softib::coll
