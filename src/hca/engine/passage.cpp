#include "hca/engine/passage.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <utility>

#include "hca/engine/ring.h"
#include "hca/engine/timers.h"
#include "hca/engine/way.h"
#include "wire/loss.h"

namespace softib::hca {

namespace {

using ipc::Link;
using ipc::Passage;

// What would arrive within this time arrives at once: no thread can wait for less.
constexpr u64 at_once_ns = 2'000;

// The links on a way.
class Links {
 public:
  Links(Context& context, ipc::AddressVector& av) : links_(context.segment.links), way_(context.segment, av) {}

  [[nodiscard]] std::span<const u32> there() const { return way_.there(); }
  [[nodiscard]] std::span<const u32> back() const { return way_.back(); }
  [[nodiscard]] Link& at(u32 index) const { return links_[index & (ipc::max_links - 1)]; }

 private:
  Link* links_;
  WayView way_;
};

// The link has something to send from `from` to `to`, and sends for `sending` of that. Times that overlap count once.
void note_pending(Link& link, u64 from, u64 to, u64 sending) {
  u64 until = link.pending_until.load(std::memory_order_relaxed);
  while (until < to && !link.pending_until.compare_exchange_weak(until, to, std::memory_order_relaxed)) {
  }
  const u64 fresh = until < to ? to - std::max(from, until) : 0;
  if (fresh != sending) link.waited_ns.fetch_add(fresh - sending, std::memory_order_relaxed);
}

// Takes the link for as long as the words need it, from `start` at the earliest. Gives when they have left it.
u64 occupy(Link& link, u64 words, u64 start) {
  const u64 mbps = link.mbps.load(std::memory_order_relaxed);
  if (mbps == 0) return start;
  const u64 duration = words * wire::bits_of_word * 1000 / mbps;
  u64 busy = link.busy_until.load(std::memory_order_relaxed);
  u64 begin;
  do begin = std::max(busy, start);
  while (!link.busy_until.compare_exchange_weak(busy, begin + duration, std::memory_order_relaxed));
  note_pending(link, begin, begin + duration, duration);
  return begin + duration;
}

// Switches pass a packet on while it comes in, so a message is through when the slowest link has let go of it.
struct Sending {
  u64 end;
  size_t slowest = 0;  // place on the way of the link that was last
};

Sending send_over(const Links& links, std::span<const u32> way, u64 words, u64 start) {
  Sending sending{start};
  for (size_t i = 0; i < way.size(); ++i)
    if (const u64 end = occupy(links.at(way[i]), words, start); end > sending.end) sending = {end, i};
  return sending;
}

// The links before the slowest one hold the message from its start on, and have no credits for most of the time. That
// one sends whenever it has something, and those behind it send what comes.
void note_waits(const Links& links, std::span<const u32> way, u64 start, const Sending& sending) {
  for (const u32 index : way.first(sending.slowest)) {
    Link& link = links.at(index);
    if (link.mbps.load(std::memory_order_relaxed) != 0) note_pending(link, start, sending.end, 0);
  }
}

u64 delay_of(const Links& links, std::span<const u32> way) {
  u64 sum = 0;
  for (const u32 index : way) sum += links.at(index).delay_ns.load(std::memory_order_relaxed);
  return sum;
}

double loss_of(const Link& link, u64 words) {
  return wire::chance_of_loss(link.drop.load(std::memory_order_relaxed),
                              link.bit_errors.load(std::memory_order_relaxed), words);
}

double dice() {
  thread_local std::minstd_rand random(static_cast<u32>(now_ns()));
  return std::uniform_real_distribution<double>(0, 1)(random);
}

// The first of `packets` that gets lost on the link; `packets` if none does.
u64 first_lost(double chance, u64 packets) {
  if (!(chance > 0)) return packets;
  if (chance >= 1) return 0;
  const double skipped = std::log1p(-dice()) / std::log1p(-chance);
  return skipped < static_cast<double>(packets) ? static_cast<u64>(skipped) : packets;
}

// Sends the packets over all links of a way; gives the first that got lost somewhere, which that link counts.
u64 first_lost(const Links& links, std::span<const u32> way, u64 words_each, u64 packets) {
  u64 first = packets;
  Link* where = nullptr;
  for (const u32 index : way) {
    Link& link = links.at(index);
    const u64 lost = first_lost(loss_of(link, words_each), first);
    if (lost >= first) continue;
    first = lost;
    where = &link;
  }
  if (where) where->lost_packets.fetch_add(1, std::memory_order_relaxed);
  return first;
}

// RC: a packet that is missing while others follow is asked for again at once, which costs little; up to retry_count
// times in a row for the same one. When the last is missing, or the answer, nobody knows before the ACK time-out: what
// then remains to be sent again is that packet.
bool survives(const Links& links, ipc::Qp& qp, const WireCost& cost) {
  u64 left = std::max<u64>(qp.requester.packets_left ? qp.requester.packets_left : cost.out_packets, 1);
  const u64 each = cost.out_words / std::max<u64>(cost.out_packets, 1);
  u32 in_a_row = 0;
  for (;;) {
    const u64 lost = first_lost(links, links.there(), each, left);
    if (lost == left) break;
    in_a_row = lost == 0 ? in_a_row + 1 : 1;
    left -= lost;
    qp.requester.packets_left = static_cast<u32>(left);
    if (left == 1 || in_a_row > qp.retry_count) return false;
  }
  qp.requester.packets_left = 1;
  const u64 answers = cost.back_packets;
  if (answers == 0) return true;
  return first_lost(links, links.back(), cost.back_words / answers, answers) == answers;
}

// Unreliable messages: one lost packet is the end of it.
bool arrives_whole(const Links& links, const WireCost& cost) {
  const u64 packets = std::max<u64>(cost.out_packets, 1);
  return first_lost(links, links.there(), cost.out_words / packets, packets) == packets;
}

// The time when a request was seen to be posted while others were on their way; in fields of the entry that are the
// kernel's. 0: it went to the head of an idle queue.
u64 posted_at(const abi::SendWqe& wqe) { return u64{wqe.last_psn} << 32 | wqe.first_psn; }

void set_posted_at(abi::SendWqe& wqe, u64 time) {
  wqe.first_psn = static_cast<u32>(time);
  wqe.last_psn = static_cast<u32>(time >> 32);
}

// When the message has got where its effect is: at the peer, of READ and atomics back here.
u64 arrival(const Links& links, const SendWork& work, const WireCost& cost, u64 now) {
  auto& requester = work.qp.requester;
  const u64 posted = posted_at(work.wqe);
  const u64 start = std::max(requester.sent_until, posted && posted < now ? posted : now);
  const bool comes_back = work.opcode() == WrOpcode::rdma_read || work.opcode() == WrOpcode::compare_swap ||
                          work.opcode() == WrOpcode::fetch_add;
  const Sending out = send_over(links, links.there(), cost.out_words, start);
  const Sending back = cost.back_words ? send_over(links, links.back(), cost.back_words, start) : Sending{start};
  u64 sent = out.end;
  u64 delay = delay_of(links, links.there());
  if (comes_back) {
    sent = std::max(sent, back.end);
    delay += delay_of(links, links.back());
    note_waits(links, links.back(), start, back);
  } else {
    note_waits(links, links.there(), start, out);
  }
  requester.sent_until = sent;
  return sent + delay;
}

// What becomes of a message on each link of a tree: the copies behind it share that.
class Tree {
 public:
  Tree(const Links& links, u64 words) : links_(links), words_(words) {}

  bool loses(u32 index) {
    for (const auto& [known, lost] : thrown_)
      if (known == index) return lost;
    Link& link = links_.at(index);
    const bool lost = first_lost(loss_of(link, words_), 1) == 0;
    if (lost) link.lost_packets.fetch_add(1, std::memory_order_relaxed);
    thrown_.emplace_back(index, lost);
    return lost;
  }

 private:
  const Links& links_;
  u64 words_;
  std::vector<std::pair<u32, bool>> thrown_;
};

Outcome lost_on_the_way(const ipc::Qp& qp) { return qp.type == ipc::QpType::rc ? Outcome::lost() : Outcome::success(); }

}  // namespace

void note_posted(Context& context, const ipc::Qp& qp) {
  const Ring ring(context.segment, qp.sq_ring, qp.sq_mask);
  const u64 now = now_ns();
  // From the newest back to those that were noted before; the one at the head is on its way.
  for (u32 at = ring.producer(); at != ring.next(ring.consumer()) && at != ring.consumer();) {
    at = (at - 1) & qp.sq_mask;
    auto& wqe = *ring.at<abi::SendWqe>(at, qp.sq_log2_size);
    if (posted_at(wqe)) return;
    set_posted_at(wqe, now);
  }
}

std::vector<bool> lost_copies(Context& context, ipc::AddressVector& av, const WireCost& cost) {
  const WayView way(context.segment, av);
  std::span<const u32> rest = way.back();
  if (rest.empty()) return {};
  const Links links(context, av);
  Tree tree(links, cost.out_words);
  std::vector<bool> lost(way.ports().size());
  for (size_t i = 0; i < lost.size() && !rest.empty(); ++i) {
    const auto behind = rest.subspan(1).first(std::min<size_t>(rest[0], rest.size() - 1));
    lost[i] = std::any_of(behind.begin(), behind.end(), [&](u32 link) { return tree.loses(link); });
    rest = rest.subspan(1 + behind.size());
  }
  return lost;
}

std::optional<Outcome> pass(Context& context, const SendWork& work, ipc::AddressVector& av, const WireCost& cost) {
  auto& requester = work.qp.requester;
  Passage passage = std::exchange(requester.passage, Passage::none);
  if (passage == Passage::none) {
    const Links links(context, av);
    const u64 now = now_ns();
    const u64 due = arrival(links, work, cost, now);
    set_posted_at(work.wqe, 0);  // ibv_post_send doesn't wipe what it doesn't use
    const bool whole = work.qp.type == ipc::QpType::rc ? survives(links, work.qp, cost) : arrives_whole(links, cost);
    passage = whole ? Passage::arriving : Passage::losing;
    if (due > now + at_once_ns) {
      requester.deadline = due;
      requester.passage = passage;
      return Outcome::on_its_way();
    }
  }
  if (passage == Passage::losing) return lost_on_the_way(work.qp);
  requester.packets_left = 0;
  return std::nullopt;
}

}  // namespace softib::hca
