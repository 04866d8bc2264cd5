#include "daemon/plane/accounts.h"

#include <algorithm>

namespace softib::daemon {

namespace {

std::vector<net::Hop> reversed(const std::vector<net::Hop>& hops) {
  std::vector<net::Hop> back;
  for (auto hop = hops.rbegin(); hop != hops.rend(); ++hop) back.push_back({hop->in, hop->out});
  return back;
}

u64 load(const std::atomic<u64>& counter) { return counter.load(std::memory_order_relaxed); }

}  // namespace

Accounts::Counts Accounts::read(RouteOwner owner) const {
  const ipc::Traffic& traffic = owner.kind == ipc::ObjectKind::ah ? segment_.ahs[owner.id & (ipc::max_ahs - 1)].traffic
                                                                  : segment_.qps[owner.id & (ipc::max_qps - 1)].traffic;
  return {load(traffic.out_packets), load(traffic.out_words), load(traffic.back_packets), load(traffic.back_words)};
}

void Accounts::settle(RouteOwner owner, Account& account) {
  const Counts now = read(owner);
  if (now == account.seen) return;
  Counts grown;
  for (size_t i = 0; i < grown.size(); ++i) grown[i] = now[i] - account.seen[i];
  account.seen = now;
  network_.count(account.there, {grown[0], grown[1], account.multicast});
  if (grown[2]) network_.count(account.back, {grown[2], grown[3], false});
}

void Accounts::take(RouteOwner owner, std::vector<net::Hop> hops, bool multicast) {
  auto [found, fresh] = accounts_.try_emplace(owner);
  Account& account = found->second;
  if (fresh)
    account.seen = read(owner);
  else
    settle(owner, account);
  account.back = multicast ? std::vector<net::Hop>{} : reversed(hops);
  account.there = std::move(hops);
  account.multicast = multicast;
}

void Accounts::forget(RouteOwner owner) {
  auto found = accounts_.find(owner);
  if (found == accounts_.end()) return;
  settle(owner, found->second);
  accounts_.erase(found);
}

void Accounts::settle_all() {
  for (auto& [owner, account] : accounts_) settle(owner, account);
}

}  // namespace softib::daemon
