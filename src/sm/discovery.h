// The first part of a heavy sweep: who is there, and how it is cabled. Each linked port of each switch is asked who is
// behind it, so every cable between switches is seen from both ends; what the ends say must agree.
#pragma once

#include <unordered_map>
#include <vector>

#include "sm/requests.h"
#include "sm/subnet.h"

namespace softib::sm {

class Discovery {
 public:
  explicit Discovery(Requests& requests) : requests_(requests) {}

  // Posts the first question. The work is over when no request is left.
  void start();
  // Drops links that can't be, with a line for each, and lists the end ports.
  Subnet finish(Mouth& mouth);
  [[nodiscard]] u32 silent() const { return silent_; }  // questions without an answer

 private:
  void ask_node(const Path& path, End from);
  void node_answered(const wire::Mad* mad, const Path& path, End from);
  u32 add_node(std::span<const u8> info, const Path& path);
  void ask_about(u32 node, const Path& path);
  void ask_port(u32 node, u8 port);
  void port_answered(const wire::Mad* mad, u32 node, u8 port);
  void ask_pkeys(End end);
  void ask_pkey_block(End end, u32 block);
  void claim(End from, End to);
  void check_links(Mouth& mouth);
  void check_link(End from, Mouth& mouth);
  void list_ends(Mouth& mouth);

  Requests& requests_;
  Subnet subnet_;
  std::unordered_map<u64, u32> by_guid_;
  struct Claim {
    End from;
    End to;
  };
  std::vector<Claim> ca_claims_;  // links into CAs and routers, which are seen from one end only
  u32 silent_ = 0;
};

}  // namespace softib::sm
