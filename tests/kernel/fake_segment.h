// A segment of this process alone: nothing is taken but address space until a record is touched.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "ipc/segment.h"

namespace softib::kernel::testing {

// Mapping and unmapping 128 GiB costs sanitizers a tenth of a second, so segments are used again, emptied; and the
// system calls are made directly, so that no sanitizer clears its notes on the whole range each time.
class FakeSegment {
 public:
  FakeSegment() {
    if (!spare().empty()) {
      segment_ = spare().back();
      spare().pop_back();
      return;
    }
    long memory = ::syscall(SYS_mmap, nullptr, ipc::segment_size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == -1) std::abort();
    segment_ = reinterpret_cast<ipc::Segment*>(memory);
  }
  ~FakeSegment() {
    if (::syscall(SYS_madvise, segment_, ipc::segment_size, MADV_DONTNEED) != 0) std::abort();
    spare().push_back(segment_);
  }
  FakeSegment(const FakeSegment&) = delete;
  FakeSegment& operator=(const FakeSegment&) = delete;

  ipc::Segment& operator*() const { return *segment_; }
  ipc::Segment* operator->() const { return segment_; }

 private:
  static std::vector<ipc::Segment*>& spare() {
    static auto& segments = *new std::vector<ipc::Segment*>;
    return segments;
  }

  ipc::Segment* segment_;
};

}  // namespace softib::kernel::testing
