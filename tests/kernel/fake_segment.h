// A segment of this process alone: nothing is taken but address space until a record is touched.
#pragma once

#include <sys/mman.h>

#include <cstdlib>

#include "ipc/segment.h"

namespace softib::kernel::testing {

class FakeSegment {
 public:
  FakeSegment() {
    void* memory =
        ::mmap(nullptr, ipc::segment_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    segment_ = static_cast<ipc::Segment*>(memory);
  }
  ~FakeSegment() { ::munmap(segment_, ipc::segment_size); }
  FakeSegment(const FakeSegment&) = delete;
  FakeSegment& operator=(const FakeSegment&) = delete;

  ipc::Segment& operator*() const { return *segment_; }
  ipc::Segment* operator->() const { return segment_; }

 private:
  ipc::Segment* segment_;
};

}  // namespace softib::kernel::testing
