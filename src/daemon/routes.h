// Which port an address leads to.
#pragma once

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "base/types.h"
#include "ipc/segment.h"

namespace softib::daemon {

// A look-up over the segment's ports. For now every port with an address is one step away; forwarding tables come
// between once switches forward.
class Routes {
 public:
  // `subnets`: by port index; ports reach each other within a subnet only.
  Routes(ipc::Segment& segment, std::vector<u32> subnets) : segment_(segment), subnets_(std::move(subnets)) {
    rebuild();
  }

  // Takes over the ports' LIDs and GIDs; bumps route_epoch, so that cached resolutions are looked up again.
  void rebuild();

  // Index of the destination port of a unicast address vector, sent from port `local`; 0 = unreachable.
  [[nodiscard]] u32 resolve(const ipc::AddressVector& av, u32 local) const;

  [[nodiscard]] u32 epoch() const { return segment_.header.route_epoch.load(std::memory_order_relaxed); }

 private:
  using GidBytes = std::array<u8, 16>;

  [[nodiscard]] u32 look_up(const ipc::AddressVector& av, const ipc::Port& local) const;

  ipc::Segment& segment_;
  std::vector<u32> subnets_;
  std::map<GidBytes, u32> port_of_gid_;
};

}  // namespace softib::daemon
