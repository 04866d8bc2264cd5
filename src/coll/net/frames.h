// Messages on a TCP connection: a header and a body, both of limited size.
//
//   +-------------+-----------+-----------+-------------+----------
//   |  magic 4    |  type 2   |  zero 2   |  length 4   |  body ...
//   +-------------+-----------+-----------+-------------+----------
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "base/fd.h"
#include "coll/net/bytes.h"

namespace softib::coll {

struct Frame {
  u16 type = 0;
  Bytes body;
};

inline constexpr u32 frame_magic = 0x636f'6c4c;
inline constexpr std::size_t frame_header_bytes = 12;

// Header and body as they are sent.
[[nodiscard]] Bytes make_frame(u16 type, std::span<const std::byte> body);

// Cuts a stream of bytes into frames.
class FrameReader {
 public:
  // No body may be longer than `limit`: what a stranger can make us keep.
  explicit FrameReader(u64 limit) : limit_(limit) {}

  void set_limit(u64 limit) { limit_ = limit; }
  void take(std::span<const std::byte> data) { kept_.insert(kept_.end(), data.begin(), data.end()); }
  // nothing: not all of it is there yet, or broken().
  [[nodiscard]] std::optional<Frame> next();
  // What came is no frame, or too long a one.
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  u64 limit_;
  Bytes kept_;
  std::size_t used_ = 0;  // bytes of kept_ that were given out
  bool broken_ = false;
};

// A connection that sends and receives frames, without ever waiting.
class FrameSocket {
 public:
  FrameSocket(Fd fd, u64 limit) : fd_(std::move(fd)), reader_(limit) {}

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool open() const { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }
  // For those who go on with something else than frames.
  [[nodiscard]] Fd take_fd() { return std::move(fd_); }
  void set_limit(u64 limit) { reader_.set_limit(limit); }

  enum class Stream : u8 { open, ended };
  // Reads a part of what is there. `ended`: no more will come, but frames that came before can be taken.
  [[nodiscard]] Stream receive();
  [[nodiscard]] std::optional<Frame> next() { return reader_.next(); }
  [[nodiscard]] bool broken() const { return reader_.broken(); }

  // One frame may go to many.
  void post(std::shared_ptr<const Bytes> frame) { waiting_.push_back(std::move(frame)); }
  void post(u16 type, std::span<const std::byte> body) { post(std::make_shared<const Bytes>(make_frame(type, body))); }
  // Sends what goes without waiting; false: the connection is broken.
  [[nodiscard]] bool flush();
  [[nodiscard]] bool sending() const { return !waiting_.empty(); }
  // "Connection timed out": why it is broken, where that isn't the other side's doing. Empty: it ended.
  [[nodiscard]] std::string lost_way() const;
  // All that was posted is at the other side's kernel.
  [[nodiscard]] bool all_arrived() const;

 private:
  Fd fd_;
  FrameReader reader_;
  std::deque<std::shared_ptr<const Bytes>> waiting_;
  std::size_t sent_ = 0;  // bytes of the first one
  int error_ = 0;         // the first one
};

}  // namespace softib::coll
