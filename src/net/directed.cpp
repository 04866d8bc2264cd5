// Directed routes (IBTA vol. 1, 14.2.2). A request goes by the hops of its initial path, an answer back by those of the
// return path; either end of the way may be one that goes by LID (DrSLID or DrDLID is not the permissive one).
//
//   hop pointer         request                                        answer (direction bit set)
//   0                   at its first node: 1, out of initial_path[1]   it is there
//   1 .. hop count - 1  at a switch: + 1, out of initial_path[+ 1]     2 and more: - 1, out of return_path[- 1]
//   hop count           + 1, and it is there, or goes on by LID        1: 0, and it is there, or goes on by LID
//   hop count + 1       it is there                                    at its first node: - 1, out of return_path[- 1]
#include "net/links.h"
#include "net/transit.h"

namespace softib::net {

namespace {

enum class Arrived : u8 { from_within, by_link, by_lid };

class Directed {
 public:
  Directed(World& world, Packet& packet)
      : world_(world),
        packet_(packet),
        count_(static_cast<u8>(wire::get(packet.mad, wire::header::hop_count))),
        pointer_(static_cast<u8>(wire::get(packet.mad, wire::header::hop_pointer))),
        back_((wire::get(packet.mad, wire::header::status) & wire::directed_bit) != 0) {}

  void from(u32 start) {
    if (count_ > wire::smp::most_hops) return;
    u32 at = start;
    Arrived arrived = Arrived::from_within;
    if (begins_by_lid() && packet_.dlid != wire::permissive_lid) {
      if (packet_.slid == 0) packet_.slid = world_.ports[start].lid;
      at = route_by_lid(world_, start, packet_, delay_);
      arrived = Arrived::by_lid;
    }
    // Each hop moves the pointer, so this ends; one way more by LID may follow.
    while (at != none && !there_) {
      at = next(at, arrived);
      wire::set(packet_.mad, wire::header::hop_pointer, pointer_);
    }
    if (at != none) arrive(world_, at, packet_, delay_);
  }

 private:
  [[nodiscard]] bool permissive(wire::Field lid) const { return wire::get(packet_.mad, lid) == wire::permissive_lid; }
  [[nodiscard]] bool begins_by_lid() const { return !permissive(back_ ? wire::smp::dr_dlid : wire::smp::dr_slid); }

  u32 next(u32 at, Arrived& arrived) { return back_ ? next_back(at, arrived) : next_forth(at, arrived); }

  u32 next_forth(u32 at, Arrived& arrived) {
    const Port& port = world_.ports[at];
    const bool is_switch = world_.node(port).sw != nullptr;
    if (arrived == Arrived::by_link) {
      if (pointer_ == 0 || pointer_ > count_) return none;
      packet_.mad[wire::smp::return_path_at + pointer_] = port.ref.port;
    }
    if (pointer_ == count_ + 1) return stay(at);
    if (pointer_ > count_) return none;
    if (pointer_ == count_) {
      ++pointer_;
      return permissive(wire::smp::dr_dlid) ? stay(at) : by_lid(at, wire::smp::dr_dlid, arrived);
    }
    if (pointer_ > 0 && !(is_switch && arrived == Arrived::by_link)) return none;
    ++pointer_;
    return leave(at, packet_.mad[wire::smp::initial_path_at + pointer_], arrived);
  }

  u32 next_back(u32 at, Arrived& arrived) {
    const bool first = pointer_ == count_ + 1;
    if (pointer_ > count_ + 1 || (arrived == Arrived::by_link && first)) return none;
    if (pointer_ == 0) return stay(at);
    if (pointer_ == 1) {
      pointer_ = 0;
      return permissive(wire::smp::dr_slid) ? stay(at) : by_lid(at, wire::smp::dr_slid, arrived);
    }
    if (!first && !(world_.node(world_.ports[at]).sw && arrived == Arrived::by_link)) return none;
    --pointer_;
    return leave(at, packet_.mad[wire::smp::return_path_at + pointer_], arrived);
  }

  u32 stay(u32 at) {
    there_ = true;
    return at;
  }

  // Out of a switch's port of that number; a CA has only the one that the packet is at.
  u32 leave(u32 at, u8 number, Arrived& arrived) {
    const Port& port = world_.ports[at];
    const Node& node = world_.node(port);
    if (number == 0 || number > node.ports || (!node.sw && number != port.ref.port)) return none;
    const u32 out = node.first + number;
    if (!carries_management(world_, world_.ports[out])) {
      if (node.sw) world_.ports[out].tally[index_of(Cause::xmit_discard)] += 1;
      return none;
    }
    arrived = Arrived::by_link;
    return cross(world_, out, packet_, delay_) == Loss::none ? world_.ports[out].peer : none;
  }

  // The last part of the way, from a switch on. What comes by it has arrived.
  u32 by_lid(u32 at, wire::Field lid, Arrived& arrived) {
    const Node& node = world_.node(world_.ports[at]);
    if (!node.sw) return none;
    packet_.slid = world_.ports[node.first].lid;
    packet_.dlid = static_cast<u16>(wire::get(packet_.mad, lid));
    arrived = Arrived::by_lid;
    if (packet_.dlid >= wire::first_multicast_lid) return none;
    return route_by_lid(world_, node.first, packet_, delay_);
  }

  World& world_;
  Packet& packet_;
  u8 count_;
  u8 pointer_;
  bool back_;
  bool there_ = false;
  u64 delay_ = 0;
};

}  // namespace

void carry_directed(World& world, u32 from, Packet& packet) { Directed(world, packet).from(from); }

}  // namespace softib::net
