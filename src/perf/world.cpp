#include "perf/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace softib::perf {

// The communicator has that time-out too. What ends it sooner is another failure.
void finish(coll::Communicator& communicator, coll::Request request, u32 timeout) {
  const auto begin = std::chrono::steady_clock::now();
  auto done = communicator.wait(request);
  if (done) return;
  const bool late = timeout != 0 && std::chrono::steady_clock::now() - begin >= std::chrono::seconds(timeout);
  if (late) throw Stop{Exit::timeout, fmt::format("Test timeout ({}s): {}", timeout, done.error().text)};
  must(std::move(done));
}

void World::barrier() { finish(*communicator_, must(communicator_->start_barrier()), timeout_); }

void World::gather_bytes(const void* mine, void* all, u64 each) {
  finish(*communicator_, must(communicator_->start_all_gather(mine, all, each, coll::DataType::uint8)), timeout_);
}

std::vector<std::string> World::gather_texts(const std::string& mine) {
  const std::vector<u64> lengths = gather(static_cast<u64>(mine.size()));
  const u64 longest = *std::max_element(lengths.begin(), lengths.end());
  std::string padded = mine;
  padded.resize(longest);
  const std::vector<char> all = gather(std::span<const char>(padded));
  std::vector<std::string> texts;
  for (u32 rank = 0; rank < size(); ++rank) texts.emplace_back(all.data() + rank * longest, lengths[rank]);
  return texts;
}

}  // namespace softib::perf
