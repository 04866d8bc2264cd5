// The pipes that carry completion and async events to a program.
#pragma once

#include <cstring>
#include <vector>

#include "base/fd.h"
#include "base/types.h"

namespace softib::daemon {

struct PipeEnds {
  Fd read;   // the program's, blocking until it says otherwise
  Fd write;  // softibd's and its peers', never blocking
};

[[nodiscard]] Result<PipeEnds> make_pipe();

// Another read end of the same pipe, which never waits. None where /proc is missing.
[[nodiscard]] Fd open_reader(const Fd& write_end);

// Grows a pipe to `bytes` where the system allows it.
void grow_pipe(const Fd& write_end, u64 bytes);

// EAGAIN: full. EPIPE: no reader is left.
[[nodiscard]] Result<void> write_record(const Fd& write_end, const void* record, size_t size);

// Takes the records that match out of a pipe; the others stay, in their order. Record is trivially copyable.
template <typename Record, typename Match>
void drop_records(const Fd& write_end, Match matches);

namespace detail {
// Everything that lies in the pipe now, taken out of it. Read without waiting and without the program's descriptor.
[[nodiscard]] std::vector<u8> take_all(const Fd& write_end);
}  // namespace detail

template <typename Record, typename Match>
void drop_records(const Fd& write_end, Match matches) {
  std::vector<u8> bytes = detail::take_all(write_end);
  for (size_t at = 0; at + sizeof(Record) <= bytes.size(); at += sizeof(Record)) {
    Record record;
    std::memcpy(&record, bytes.data() + at, sizeof record);
    if (!matches(record)) (void)write_record(write_end, &record, sizeof record);
  }
}

}  // namespace softib::daemon
