// Links that hold up the data path's packets or lose them: paced ones, and those with faults. Each direction of such a
// cable gets a record in the segment when the first way leads over it; clean links have none and cost nothing.
#pragma once

#include <span>
#include <vector>

#include "ipc/segment.h"
#include "net/network.h"

namespace softib::daemon {

class Shapes {
 public:
  // `paced`: every link carries no more than its data rate.
  Shapes(ipc::Segment& segment, net::Network& network, bool paced);

  // The records of those among the links that matter, brought up to date.
  [[nodiscard]] std::vector<u32> of(std::span<const net::Hop> hops);

  // Puts what the data path lost and waited for on the ports' counters.
  void settle();

 private:
  struct Known {
    net::Hop hop;
    u64 lost = 0;
    u64 waited_ns = 0;
  };

  u32 record_of(const net::Hop& hop);
  void refresh(u32 link);

  ipc::Segment& segment_;
  net::Network& network_;
  const bool paced_;
  std::vector<std::vector<u32>> indices_;  // by node and port number of the sending end; 0: none yet
  std::vector<Known> known_;               // by index in the segment
};

}  // namespace softib::daemon
