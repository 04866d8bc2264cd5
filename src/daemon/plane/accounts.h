// The data path's traffic on the port counters. The engine counts per QP and per address handle; along which links that
// went is known here, since routes are found here. What was counted is added up along the old way before a new one is
// taken, and whenever somebody wants to see counters.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "daemon/routes.h"
#include "ipc/segment.h"
#include "net/network.h"

namespace softib::daemon {

class Accounts {
 public:
  Accounts(ipc::Segment& segment, net::Network& network) : segment_(segment), network_(network) {}

  // From now on the owner's traffic goes along this path, and gets lost there if it ends early.
  void take(RouteOwner owner, net::Path path);
  // Multicast: a copy along each path.
  void take_tree(RouteOwner owner, const std::vector<net::Path>& paths);
  // It goes: its last traffic is counted.
  void forget(RouteOwner owner);
  void settle_all();

 private:
  using Counts = std::array<u64, 6>;  // as ipc::Traffic
  struct Account {
    std::vector<net::Hop> there;
    std::vector<net::Hop> back;
    std::vector<net::Path> losses;  // of each packet
    bool multicast = false;
    Counts seen{};
  };

  [[nodiscard]] Counts read(RouteOwner owner) const;
  [[nodiscard]] net::BadKey facts_of(RouteOwner owner) const;
  Account& begin(RouteOwner owner);
  void settle(RouteOwner owner, Account& account);
  void settle_peer(RouteOwner owner);
  void settle_answers(RouteOwner owner, u64 packets, u64 words);
  [[nodiscard]] std::optional<RouteOwner> peer_of(RouteOwner owner) const;

  ipc::Segment& segment_;
  net::Network& network_;
  std::map<RouteOwner, Account> accounts_;
};

}  // namespace softib::daemon
