#include "coll/bootstrap/crowding.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <thread>

#include "base/processors.h"

namespace softib::coll {

namespace {

constexpr u32 bits_of_word = 64;
constexpr u32 nobody = ~u32{0};

// Gives each rank a processor of its own as long as that works, moving others for it: Kuhn's matching.
class Seating {
 public:
  explicit Seating(const std::vector<const std::vector<u64>*>& allowed) : allowed_(allowed) {}

  // False: there is none left for the rank.
  bool seat(u32 rank) {
    tried_.assign(tried_.size(), false);
    return find(rank);
  }

 private:
  bool find(u32 rank) {
    const std::vector<u64>& words = *allowed_[rank];
    for (u32 processor = 0; processor < words.size() * bits_of_word; ++processor) {
      if ((words[processor / bits_of_word] >> processor % bits_of_word & 1) == 0) continue;
      if (processor >= taken_by_.size()) {
        taken_by_.resize(processor + 1, nobody);
        tried_.resize(processor + 1, false);
      }
      if (tried_[processor]) continue;
      tried_[processor] = true;
      if (taken_by_[processor] != nobody && !find(taken_by_[processor])) continue;
      taken_by_[processor] = rank;
      return true;
    }
    return false;
  }

  const std::vector<const std::vector<u64>*>& allowed_;
  std::vector<u32> taken_by_;  // by processor
  std::vector<bool> tried_;
};

}  // namespace

std::vector<u64> own_processors() {
  std::vector<u32> processors = allowed_processors();
  if (processors.empty()) {
    processors.resize(std::max(1U, std::thread::hardware_concurrency()));
    std::iota(processors.begin(), processors.end(), 0U);
  }
  std::vector<u64> words(processors.back() / bits_of_word + 1);
  for (const u32 processor : processors) words[processor / bits_of_word] |= u64{1} << processor % bits_of_word;
  return words;
}

bool is_crowded(std::span<const Member> members, u32 rank, u32 others) {
  const Member& self = members[rank];
  const std::vector<u64> unknown = own_processors();
  std::vector<const std::vector<u64>*> allowed;
  std::vector<u64> any;
  for (const Member& member : members) {
    const bool here =
        member.host_key == self.host_key || (self.machine_key != 0 && member.machine_key == self.machine_key);
    if (!here) continue;
    allowed.push_back(member.processors.empty() ? &unknown : &member.processors);
    any.resize(std::max(any.size(), allowed.back()->size()));
    std::transform(allowed.back()->begin(), allowed.back()->end(), any.begin(), any.begin(), std::bit_or<>());
  }
  allowed.resize(allowed.size() + others, &any);
  Seating seating(allowed);
  for (u32 each = 0; each < allowed.size(); ++each)
    if (!seating.seat(each)) return true;
  return false;
}

}  // namespace softib::coll
