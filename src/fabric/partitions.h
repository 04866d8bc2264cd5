// Partitions as a partitions.conf describes them, in opensm's syntax: who has which P_Key, and the multicast groups
// that exist from the start.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "wire/pkey.h"

namespace softib::fabric {

using GidBytes = std::array<u8, 16>;

enum class NodeType : u8 { ca = 1, sw = 2, router = 3 };  // as in NodeInfo

enum class Membership : u8 { limited, full, both };

struct GroupFlags {
  u8 rate = 3;  // 10 Gb/s
  u8 mtu = 4;   // 2,048 bytes
  u8 sl = 0;
  u16 scopes = 0;  // a bit each; none: as the MGID says
  u32 qkey = 0;    // 0: as is usual for the kind of group
  u8 traffic_class = 0;
  u32 flow_label = 0;
};

struct PlannedGroup {
  GidBytes mgid{};
  u16 pkey = 0;
  GroupFlags flags;
};

struct Partition {
  enum class Who : u8 { one, all, cas, switches, routers, self };
  struct Rule {
    Who who = Who::one;
    u64 guid = 0;
    Membership membership = Membership::limited;
    bool index0 = false;
  };
  std::string name;
  u16 key = 0;  // 15 bits
  u8 sl = 0;
  std::vector<Rule> rules;
};

struct Partitions {
  std::vector<Partition> list;
  std::vector<PlannedGroup> groups;
  std::vector<std::string> errors;  // one line each; what they name is left out

  // What a port gets, the first for index 0.
  [[nodiscard]] std::vector<u16> keys(NodeType type, u64 port_guid, bool self) const;
  // Service level of a partition, by P_Key.
  [[nodiscard]] u8 sl(u16 pkey) const;
};

using wire::default_key;
using wire::full_member;

// Empty text: everyone is a full member of the default partition, and IPoIB's broadcast group is there. With a text the
// default partition begins as opensm makes it, whether the text has a line for it or not: all are limited members.
// Errors name `source` and the line, counted from `first_line`.
[[nodiscard]] Partitions parse_partitions(std::string_view text, std::string_view source = "partitions.conf",
                                          u32 first_line = 1);
// Only who is named in the text is in its partitions, the default one too.
[[nodiscard]] Partitions parse_exact_partitions(std::string_view text);
[[nodiscard]] GidBytes ipoib_broadcast(u16 pkey);

}  // namespace softib::fabric
