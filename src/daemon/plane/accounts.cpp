#include "daemon/plane/accounts.h"

#include <algorithm>
#include <cstring>

namespace softib::daemon {

namespace {

u64 load(const std::atomic<u64>& counter) { return counter.load(std::memory_order_relaxed); }

}  // namespace

Accounts::Counts Accounts::read(RouteOwner owner) const {
  const ipc::Traffic& traffic = owner.kind == ipc::ObjectKind::ah ? segment_.ahs[owner.id & (ipc::max_ahs - 1)].traffic
                                                                  : segment_.qps[owner.id & (ipc::max_qps - 1)].traffic;
  return {load(traffic.out_packets), load(traffic.out_words),      load(traffic.back_packets),
          load(traffic.back_words),  load(traffic.astray_packets), load(traffic.astray_words)};
}

// What a trap about one of its packets tells.
net::BadKey Accounts::facts_of(RouteOwner owner) const {
  const bool is_ah = owner.kind == ipc::ObjectKind::ah;
  const ipc::Ah& ah = segment_.ahs[owner.id & (ipc::max_ahs - 1)];
  const ipc::Qp& qp = segment_.qps[owner.id & (ipc::max_qps - 1)];
  const ipc::AddressVector& av = is_ah ? ah.av : qp.av;
  const ipc::Port& port = segment_.ports[(is_ah ? ah.port : qp.port) & (ipc::max_ports - 1)];
  net::BadKey facts;
  facts.key = is_ah ? port.pkeys[0] : qp.pkey;
  facts.slid = port.lid;
  facts.dlid = av.dlid;
  facts.sl = av.sl;
  facts.source_qp = is_ah ? 0 : qp.qpn;
  facts.destination_qp = is_ah ? 0 : qp.dest_qpn;
  std::memcpy(facts.source.data(), port.gids[0].raw, facts.source.size());
  if (av.is_global) std::memcpy(facts.destination.data(), av.dgid.raw, facts.destination.size());
  return facts;
}

void Accounts::settle(RouteOwner owner, Account& account) {
  const Counts now = read(owner);
  if (now == account.seen) return;
  Counts grown;
  for (size_t i = 0; i < grown.size(); ++i) grown[i] = now[i] - account.seen[i];
  account.seen = now;
  const u8 sl = facts_of(owner).sl;  // answers have it too
  network_.count(account.there, {grown[0], grown[1], account.multicast, sl});
  if (grown[2]) network_.count(account.back, {grown[2], grown[3], false, sl});
  if (grown[4]) settle_answers(owner, grown[4], grown[5]);
  if (grown[0] == 0) return;
  for (const net::Path& path : account.losses) network_.count_loss(path, facts_of(owner), grown[0]);
}

std::optional<RouteOwner> Accounts::peer_of(RouteOwner owner) const {
  if (owner.kind != ipc::ObjectKind::qp) return std::nullopt;
  const u32 peer = segment_.qps[owner.id & (ipc::max_qps - 1)].dest_qpn;
  return RouteOwner{ipc::ObjectKind::qp, peer};
}

// They went along the peer's way, and got lost where that ends.
void Accounts::settle_answers(RouteOwner owner, u64 packets, u64 words) {
  const auto peer = peer_of(owner);
  const auto found = peer ? accounts_.find(*peer) : accounts_.end();
  if (found == accounts_.end()) return;
  network_.count(found->second.there, {packets, words, false, facts_of(owner).sl});
  for (const net::Path& path : found->second.losses) network_.count_loss(path, facts_of(*peer), packets);
}

void Accounts::settle_peer(RouteOwner owner) {
  const auto peer = peer_of(owner);
  const auto found = peer ? accounts_.find(*peer) : accounts_.end();
  if (found != accounts_.end()) settle(*peer, found->second);
}

// What was counted until now went along the old way; so did the answers to what the peer asked.
Accounts::Account& Accounts::begin(RouteOwner owner) {
  settle_peer(owner);
  auto [found, fresh] = accounts_.try_emplace(owner);
  Account& account = found->second;
  if (fresh)
    account.seen = read(owner);
  else
    settle(owner, account);
  account.losses.clear();
  return account;
}

void Accounts::take(RouteOwner owner, net::Path path) {
  Account& account = begin(owner);
  account.multicast = false;
  account.back = net::reversed(path.hops);
  account.there = path.hops;
  if (path.loss != net::Loss::none) account.losses.push_back(std::move(path));
}

// Each link of the tree once.
void Accounts::take_tree(RouteOwner owner, const std::vector<net::Path>& paths) {
  std::map<net::PortRef, net::Hop> links;
  Account& account = begin(owner);
  for (const net::Path& path : paths) {
    for (const net::Hop& hop : path.hops) links.emplace(hop.out, hop);
    if (path.loss != net::Loss::none) account.losses.push_back(path);
  }
  account.multicast = true;
  account.back.clear();
  account.there.clear();
  for (const auto& [out, hop] : links) account.there.push_back(hop);
}

void Accounts::forget(RouteOwner owner) {
  auto found = accounts_.find(owner);
  if (found == accounts_.end()) return;
  settle_peer(owner);
  settle(owner, found->second);
  accounts_.erase(found);
}

void Accounts::settle_all() {
  for (auto& [owner, account] : accounts_) settle(owner, account);
}

}  // namespace softib::daemon
