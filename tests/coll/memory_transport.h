// Messages between ranks that are threads of one process, in an order and at times that a random generator chooses:
// some sends copy at once and some wait, some memory is lent, sinks get pieces of any size.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "coll/transport/transport.h"

namespace softib::coll::test {

struct Parcel;

// Where the transports of all ranks meet.
struct MemoryHub {
  std::mutex mutex;
  // From, to, stream.
  std::map<std::tuple<u32, u32, Stream>, std::deque<std::shared_ptr<Parcel>>> channels;
};

// `seed` decides about everything.
[[nodiscard]] std::unique_ptr<Transport> make_memory_transport(std::shared_ptr<MemoryHub> hub, u32 rank, u64 seed);

}  // namespace softib::coll::test
