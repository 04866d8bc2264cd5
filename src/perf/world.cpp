#include "perf/world.h"

#include <algorithm>

namespace softib::perf {

void World::barrier() { must(communicator_->wait(must(communicator_->start_barrier()))); }

void World::gather_bytes(const void* mine, void* all, u64 each) {
  must(communicator_->wait(must(communicator_->start_all_gather(mine, all, each, coll::DataType::uint8))));
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
