// How long messages of ordinary memory are fetched where the kernel lets this rank read its peer: whether by chunks, at
// which both sides work at once, or by one copy that the kernel makes. Reading has been from 0.8 to 4 times as fast,
// depending on the machine, on the sizes, and on whether the sender has anything else to do.
#pragma once

#include <array>
#include <bit>

#include "base/quicker.h"
#include "coll/transport/shm/layout.h"

namespace softib::coll::shm {

enum class Fetch : u8 { chunks, read };

// What was learnt with one peer is good for all: of one rank.
class FetchChoices {
 public:
  // By length, each twice as long as the one before, and by whether the message is combined with what is here.
  [[nodiscard]] Quicker<Fetch>& of(const Receive& receive) {
    constexpr u64 least_width = std::bit_width(eager_most);
    const u64 width = std::max<u64>(std::bit_width(receive.bytes), least_width);
    return choices_[receive.sink != nullptr ? 1 : 0][std::min<u64>(width - least_width, lengths - 1)];
  }

 private:
  static constexpr u64 lengths = 12;
  std::array<std::array<Quicker<Fetch>, lengths>, 2> choices_{};
};

}  // namespace softib::coll::shm
