#include "shim/events.h"

#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <cstring>

#include "ipc/protocol.h"

namespace softib::shim {

namespace {

struct EventSource {
  const std::atomic<u32>& generation;
  std::atomic<u32>& reported;
};

// Counts an event as delivered to the program, which must acknowledge it before the object can go. False: the object
// has gone, and nobody waits for this event.
//
// softibd closes the count (events_closed) when it destroys the object, and tells the program what it stood at; so an
// event is either in that count and delivered, or neither.
bool count_event(EventSource source, u32 generation) {
  u32 count = source.reported.load(std::memory_order_acquire);
  do {
    if (source.generation.load(std::memory_order_acquire) != generation || (count & ipc::events_closed)) return false;
  } while (!source.reported.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel));
  return true;
}

bool deliver(ipc::Segment& segment, const ipc::AsyncRecord& record) {
  switch (record.kind) {
    case ipc::ObjectKind::qp: {
      ipc::Qp& qp = segment.qps[record.object % ipc::max_qps];
      return count_event({qp.generation, qp.async_events_reported}, record.generation);
    }
    case ipc::ObjectKind::cq: {
      ipc::Cq& cq = segment.cqs[record.object % ipc::max_cqs];
      return count_event({cq.generation, cq.async_events_reported}, record.generation);
    }
    case ipc::ObjectKind::srq: {
      ipc::Srq& srq = segment.srqs[record.object % ipc::max_srqs];
      return count_event({srq.generation, srq.async_events_reported}, record.generation);
    }
    default:
      return true;  // ports and devices stay
  }
}

bool deliver(ipc::Segment& segment, const ipc::CompletionRecord& record) {
  ipc::Cq& cq = segment.cqs[record.cq % ipc::max_cqs];
  return count_event({cq.generation, cq.events_reported}, record.generation);
}

ib_uverbs_async_event_desc as_kernel(const ipc::AsyncRecord& record) {
  ib_uverbs_async_event_desc event{};
  event.element = record.element;
  event.event_type = record.event_type;
  return event;
}

ib_uverbs_comp_event_desc as_kernel(const ipc::CompletionRecord& record) { return {.cq_handle = record.user_handle}; }

// The kernel waits for an event, then finds that it does not fit, and keeps it.
ssize_t refuse_short_read(int fd) {
  int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return -errno;
  pollfd ready{fd, POLLIN, 0};
  int count = ::poll(&ready, 1, flags & O_NONBLOCK ? 0 : -1);
  if (count < 0) return -errno;
  return count == 0 ? -EAGAIN : -EINVAL;
}

template <typename Record>
ssize_t read_event(ipc::Segment& segment, int fd, void* buffer, size_t size) {
  using Event = decltype(as_kernel(Record{}));
  if (size < sizeof(Event)) return refuse_short_read(fd);
  for (;;) {
    Record record;
    ssize_t got = ::read(fd, &record, sizeof record);
    if (got < 0) return -errno;
    if (got != sizeof record)
      return -EIO;  // the writers have gone: as the kernel answers for a device that was removed
    if (!deliver(segment, record)) continue;
    Event event = as_kernel(record);
    std::memcpy(buffer, &event, sizeof event);
    return sizeof event;
  }
}

}  // namespace

ssize_t read_async_event(ipc::Segment& segment, int fd, void* buffer, size_t size) {
  return read_event<ipc::AsyncRecord>(segment, fd, buffer, size);
}

ssize_t read_completion_event(ipc::Segment& segment, int fd, void* buffer, size_t size) {
  return read_event<ipc::CompletionRecord>(segment, fd, buffer, size);
}

}  // namespace softib::shim
