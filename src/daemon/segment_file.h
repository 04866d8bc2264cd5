// The memfd behind the shared segment.
#pragma once

#include <memory>

#include "base/fd.h"
#include "base/types.h"
#include "ipc/segment.h"

namespace softib::daemon {

class SegmentFile {
 public:
  // An empty segment: all zeroes but the head of its header. ENOMEM, EMFILE, EFBIG (a low RLIMIT_FSIZE).
  [[nodiscard]] static Result<std::unique_ptr<SegmentFile>> create();
  ~SegmentFile();
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;

  [[nodiscard]] ipc::Segment& segment() { return *segment_; }
  [[nodiscard]] const ipc::Segment& segment() const { return *segment_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

  // Returns the memory of a part of the arena to the system; it reads as zeroes from then on.
  void punch_arena(u64 offset, u64 bytes);

  // What the segment takes, in bytes.
  [[nodiscard]] u64 allocated_bytes() const;

 private:
  SegmentFile(Fd fd, ipc::Segment* segment) : fd_(std::move(fd)), segment_(segment) {}

  Fd fd_;
  ipc::Segment* segment_;
};

}  // namespace softib::daemon
