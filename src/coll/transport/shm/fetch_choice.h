// How long messages of ordinary memory are fetched where the kernel lets this rank read its peer: whether by chunks, at
// which both sides work at once, or by one copy that the kernel makes. Reading has been from 0.8 to 4 times as fast,
// depending on the machine, on the sizes, and on whether the sender has anything else to do.
#pragma once

#include <array>

#include "base/quicker.h"
#include "coll/transport/shm/layout.h"

namespace softib::coll::shm {

enum class Fetch : u8 { chunks, read };

// What was learnt with one peer is good for all: of one rank.
class FetchChoices {
 public:
  // By length, and by whether the message is combined with what is here.
  [[nodiscard]] Quicker<Fetch>& of(const Receive& receive) {
    return choices_[receive.sink != nullptr ? 1 : 0].of(receive.bytes);
  }

 private:
  std::array<QuickerByLength<Fetch, eager_most, 12>, 2> choices_{};
};

}  // namespace softib::coll::shm
