// Which port an address leads to.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/types.h"
#include "ipc/segment.h"

namespace softib::daemon {

// On Ethernet a look-up over the ports' GIDs. On InfiniBand the way that the switches' tables give, by `walk`; without
// it (tests of other things) every port with a LID is one step away.
class Routes {
 public:
  // Gives the port at the end of the way, 0: lost. `pkey` 0: not checked on the way.
  using Walk = std::function<u32(u32 port, u16 dlid, u8 sl, u16 pkey)>;

  // `subnets`: by port index; ports reach each other within a subnet only.
  Routes(ipc::Segment& segment, std::vector<u32> subnets) : segment_(segment), subnets_(std::move(subnets)) {
    rebuild();
  }

  void follow(Walk walk) { walk_ = std::move(walk); }

  // Takes over the ports' LIDs and GIDs; bumps route_epoch, so that cached resolutions are looked up again.
  void rebuild();

  // Index of the destination port of a unicast address vector, sent from port `local`; 0 = unreachable.
  [[nodiscard]] u32 resolve(const ipc::AddressVector& av, u32 local, u16 pkey) const;

  [[nodiscard]] u32 epoch() const { return segment_.header.route_epoch.load(std::memory_order_relaxed); }

 private:
  using GidBytes = std::array<u8, 16>;

  [[nodiscard]] u32 look_up(const ipc::AddressVector& av, const ipc::Port& local) const;

  ipc::Segment& segment_;
  std::vector<u32> subnets_;
  std::map<GidBytes, u32> port_of_gid_;
  Walk walk_;
};

}  // namespace softib::daemon
