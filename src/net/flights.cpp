#include "net/flights.h"

#include <utility>

#include "net/transit.h"

namespace softib::net {

void Flights::deliver_due(World& world) {
  while (!flying_.empty() && flying_.begin()->first <= world.now) {
    Flight flight = std::move(flying_.extract(flying_.begin()).mapped());
    const Post::Hold hold(world.post);
    if (world.node(world.ports[flight.at]).on) deliver(world, flight.at, flight.packet);
  }
}

u64 Flights::stamp(u64 now) {
  for (Flight& flight : fresh_) {
    const u64 due = now + flight.delay;
    flying_.emplace(due, std::move(flight));
  }
  fresh_.clear();
  return flying_.empty() ? ~u64{0} : flying_.begin()->first;
}

}  // namespace softib::net
