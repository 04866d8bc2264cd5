// Which port an address leads to.
#pragma once

#include <array>
#include <compare>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/types.h"
#include "ipc/protocol.h"

namespace softib::daemon {

// Whose route it is: a QP or an address handle.
struct RouteOwner {
  ipc::ObjectKind kind;
  u32 id;
  friend auto operator<=>(const RouteOwner&, const RouteOwner&) = default;
};

// Where packets to an address go.
struct Way {
  std::vector<u32> ports;  // that they reach, ascending; none: all get lost
  std::vector<u32> there;  // of the segment's links, in order
  // Multicast: for each port, the number of lossy links beyond the first, and these; nothing if there are none at all.
  std::vector<u32> back;
};

// The ways that the switches' tables give.
class Ways {
 public:
  virtual ~Ways() = default;
  // `pkey` 0: not checked on the way.
  virtual Way find(RouteOwner owner, u32 port, u16 dlid, u8 sl, u16 pkey) = 0;
  virtual Way find_multicast(RouteOwner owner, u32 port, u16 mlid, u8 sl) = 0;
  virtual void forget(RouteOwner owner) = 0;
};

// On Ethernet a look-up over the ports' GIDs. On InfiniBand the way that the switches' tables give; without Ways
// (tests of other things) every port with a LID is one step away.
class Routes {
 public:
  // `subnets`: by port index; ports reach each other within a subnet only.
  Routes(ipc::Segment& segment, std::vector<u32> subnets) : segment_(segment), subnets_(std::move(subnets)) {
    rebuild();
  }

  void follow(Ways* ways) { ways_ = ways; }

  // Takes over the ports' LIDs and GIDs, for where there are no Ways.
  void rebuild();
  // Bumps route_epoch, so that cached resolutions are looked up again.
  void expire() { segment_.header.route_epoch.fetch_add(1, std::memory_order_release); }

  // Of a unicast address vector, sent from port `local`.
  [[nodiscard]] Way resolve(RouteOwner owner, const ipc::AddressVector& av, u32 local, u16 pkey) const;
  // None: every member of the group is reached.
  [[nodiscard]] std::optional<Way> resolve_multicast(RouteOwner owner, const ipc::AddressVector& av, u32 local) const;
  // The owner goes.
  void forget(RouteOwner owner) const {
    if (ways_) ways_->forget(owner);
  }

  [[nodiscard]] u32 epoch() const { return segment_.header.route_epoch.load(std::memory_order_relaxed); }

 private:
  using GidBytes = std::array<u8, 16>;

  [[nodiscard]] u32 look_up(const ipc::AddressVector& av, const ipc::Port& local) const;

  ipc::Segment& segment_;
  std::vector<u32> subnets_;
  std::map<GidBytes, u32> port_of_gid_;
  Ways* ways_ = nullptr;
};

}  // namespace softib::daemon
