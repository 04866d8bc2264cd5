// The manager's settings in switches: forwarding tables, of which only changed blocks are sent, and SwitchInfo.
#pragma once

#include <unordered_map>
#include <vector>

#include "sm/multicast_tables.h"
#include "sm/requests.h"
#include "sm/routing.h"

namespace softib::sm {

class SwitchSetup {
 public:
  explicit SwitchSetup(Requests& requests) : requests_(requests) {}

  void send(Subnet& subnet, const Tables& unicast, const MulticastTables& multicast);
  void send_multicast(const Subnet& subnet, const MulticastTables& multicast);
  void forget_all() { sent_.clear(); }
  [[nodiscard]] u32 failures() const { return failures_; }  // since send()
  [[nodiscard]] u64 blocks_sent() const { return blocks_sent_; }

 private:
  // What a switch is known to hold.
  struct Sent {
    std::vector<u8> unicast;
    std::vector<bool> unicast_known;  // by block
    std::vector<u16> multicast;
    std::vector<bool> multicast_known;
    u32 blocks = 0;  // of MLIDs, that `multicast` is laid out for
  };
  void send_unicast(const Subnet& subnet, u32 sw, const Tables& tables);
  void send_multicast(const Subnet& subnet, u32 sw, const MulticastTables& tables);
  void send_info(Subnet& subnet, u32 sw, u32 top, u32 mlids);
  Sent& sent(const Node& node) { return sent_[node.guid]; }
  void forget_if_reset(const Node& node, u32 top);

  Requests& requests_;
  std::unordered_map<u64, Sent> sent_;  // by node GUID
  u32 last_top_ = 0;
  u32 failures_ = 0;
  u64 blocks_sent_ = 0;
};

}  // namespace softib::sm
