#include "coll/transport/verbs/choice.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace softib::coll::verbs {

const char* name_of(LinkLayer layer) { return layer == LinkLayer::ethernet ? "RoCE" : "IB"; }

const char* name_of(GidKind kind) {
  switch (kind) {
    case GidKind::infiniband:
      return "IB";
    case GidKind::roce_v1:
      return "RoCE v1";
    case GidKind::roce_v2:
      return "RoCE v2";
  }
  return "?";
}

bool is_ipv4(const Gid& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](u8 byte) { return byte == 0; }) && gid[10] == 0xff &&
         gid[11] == 0xff;
}

std::string text_of(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, gid.data(), text.data(), text.size());
  return text.data();
}

namespace {

bool is_link_local(const Gid& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

// The higher the better.
u32 rank_of(const GidEntry& entry) {
  const u32 version = entry.kind == GidKind::roce_v2 ? 4 : 0;
  return version + (is_ipv4(entry.gid) ? 2 : is_link_local(entry.gid) ? 0 : 1);
}

// The first eight bytes: equal for ports that one subnet manager looks after.
bool same_subnet(const PortAddress& a, const PortAddress& b) {
  return std::equal(a.gid.begin(), a.gid.begin() + 8, b.gid.begin());
}

// RoCE routes by IP: whether two addresses reach each other is the network's business, but they must be of one kind.
bool can_talk(const PortAddress& a, const PortAddress& b) {
  if (a.layer != b.layer) return false;
  if (a.layer == LinkLayer::infiniband) return true;
  return a.gid_kind == b.gid_kind && is_ipv4(a.gid) == is_ipv4(b.gid);
}

bool are_near(const PortAddress& a, const PortAddress& b) {
  return can_talk(a, b) && (a.layer == LinkLayer::ethernet || same_subnet(a, b));
}

using Fits = std::function<bool(const PortAddress&, const PortAddress&)>;

std::vector<RailPair> pair_by(std::span<const PortAddress> lower, std::span<const PortAddress> higher,
                              const Fits& fits) {
  std::vector<RailPair> pairs;
  std::vector<bool> taken(higher.size(), false);
  for (u32 i = 0; i < lower.size(); i++) {
    for (u32 j = 0; j < higher.size(); j++) {
      if (taken[j] || !fits(lower[i], higher[j])) continue;
      taken[j] = true;
      pairs.push_back({i, j});
      break;
    }
  }
  return pairs;
}

std::string describe(std::span<const PortAddress> ports) {
  std::string text;
  for (const PortAddress& port : ports) {
    text += fmt::format("{}{}/{} ({})", text.empty() ? "" : ", ", port.name.data(), name_of(port.gid_kind),
                        text_of(port.gid));
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::optional<GidEntry> choose_gid(std::span<const GidEntry> table, LinkLayer layer, std::optional<u32> wanted) {
  std::optional<GidEntry> best;
  for (const GidEntry& entry : table) {
    if (entry.gid == Gid{}) continue;
    if (wanted) {
      if (entry.index == *wanted) return entry;
      continue;
    }
    if (layer == LinkLayer::infiniband) {
      if (!best || entry.index < best->index) best = entry;
    } else if (!best || rank_of(entry) > rank_of(*best)) {
      best = entry;
    }
  }
  return best;
}

std::vector<RailPair> pair_rails(std::span<const PortAddress> lower, std::span<const PortAddress> higher) {
  std::vector<RailPair> pairs = pair_by(lower, higher, are_near);
  return pairs.empty() ? pair_by(lower, higher, can_talk) : pairs;
}

std::string why_no_way(std::span<const PortAddress> mine, std::span<const PortAddress> theirs) {
  return fmt::format(
      "no port here and there is of one kind (link layer, RoCE version, IPv4 or IPv6): here {}; there {}",
      describe(mine), describe(theirs));
}

bool needs_global_route(const PortAddress& a, const PortAddress& b) {
  return a.layer == LinkLayer::ethernet || !same_subnet(a, b);
}

}  // namespace softib::coll::verbs
