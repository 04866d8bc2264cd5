// Packets that a slow link holds back: they arrive when their time has come, in the order of these times.
#pragma once

#include <map>
#include <vector>

#include "net/network.h"

namespace softib::net {

struct World;

class Flights {
 public:
  // For the node behind port `at`; `delay` counts from the next stamp() on.
  void add(u32 at, const Packet& packet, u64 delay) { fresh_.push_back({at, delay, packet}); }

  void deliver_due(World& world);
  // Gives when the next one arrives, ~0: none is under way.
  u64 stamp(u64 now);

 private:
  struct Flight {
    u32 at;
    u64 delay;
    Packet packet;
  };
  std::vector<Flight> fresh_;
  std::multimap<u64, Flight> flying_;  // by time of arrival; equal ones in the order of sending
};

}  // namespace softib::net
