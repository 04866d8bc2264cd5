// The neighbour table: which hardware address is behind an IP address, and packets that wait to know. No sockets and no
// clock inside; what is to be asked comes out of it.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "ipoib/loop.h"
#include "ipoib/packets.h"
#include "ipoib/segments.h"

namespace softib::ipoib {

// A packet that waits: as the kernel gave it.
struct Held {
  VnetHeader vnet;
  Bytes packet;
};

// As the kernel's IPoIB: of more than these, the oldest is dropped.
inline constexpr u32 most_waiting = 3;
void hold(std::deque<Held>& waiting, Held held);

struct Neighbour {
  enum class State : u8 {
    asking,   // nothing is known; packets wait
    known,    // and confirmed not long ago
    doubted,  // in use, but it is asked whether that is still so
  };
  State state = State::asking;
  HardwareAddress hardware;  // unless asking
  u32 tries = 0;
  Time due;  // of the next try, or since when it is doubted
  Time used;
  std::deque<Held> waiting;
};

class Neighbours {
 public:
  static constexpr milliseconds between_tries{1000};
  static constexpr u32 most_tries = 3;
  static constexpr milliseconds believed_for{30'000};
  static constexpr milliseconds kept_unused{300'000};
  static constexpr std::size_t most = 4096;

  struct Question {
    Ip ip;
    std::optional<HardwareAddress> hardware;  // asked alone; else everyone is asked
  };
  // What has become of the table.
  struct Outcome {
    std::vector<Question> questions;
    std::vector<Held> undeliverable;
    std::vector<HardwareAddress> silent;  // were known and answer no more
  };

  // Where to send; nullptr: not known yet, hold the packet with hold(). Questions, if any, go to `outcome`.
  [[nodiscard]] const HardwareAddress* use(const Ip& ip, Time now, Outcome& outcome);
  void hold(const Ip& ip, Held held);

  // Somebody told that `ip` is at `hardware`. Only `wanted` ones make a new entry. Gives the packets that may go now.
  [[nodiscard]] std::deque<Held> learn(const Ip& ip, const HardwareAddress& hardware, bool override, bool wanted,
                                       Time now);
  [[nodiscard]] Outcome tick(Time now);
  [[nodiscard]] bool asking() const { return asking_ != 0; }
  void clear();
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  void doubt(const Ip& ip, Neighbour& neighbour, Time now, Outcome& outcome);

  std::unordered_map<Ip, Neighbour, BytesHash> entries_;
  u32 asking_ = 0;  // entries that are asking or doubted
};

}  // namespace softib::ipoib
