#include "aggregation/node_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace softib::aggregation {

using coll::Code;
using coll::Outcome;
using coll::innetwork::ConnectJob;
using coll::innetwork::OpenPort;
using coll::innetwork::Pair;
using coll::innetwork::PairSettings;
using coll::innetwork::Prepared;
using coll::innetwork::PrepareJob;
using coll::innetwork::Region;
using coll::innetwork::segment_header;

namespace {

// 67 ms, and eight times of it, until a peer that doesn't answer is given up.
constexpr u8 answer_time = 14;
constexpr u8 retries = 7;

constexpr u32 task_shift = 60;
constexpr u32 link_shift = 32;

}  // namespace

Outcome<std::unique_ptr<NodeLinks>> NodeLinks::make(const OpenPort& port, const PrepareJob& words,
                                                    const LinkTiming& timing, Time now) {
  std::unique_ptr<NodeLinks> links(new NodeLinks(port, words, timing, now));
  if (auto made = links->make_memory(); !made) return tl::unexpected(made.error());
  if (auto made = links->make_pairs(); !made) return tl::unexpected(made.error());
  return links;
}

NodeLinks::NodeLinks(const OpenPort& port, const PrepareJob& words, const LinkTiming& timing, Time now)
    : port_(port),
      timing_(timing),
      job_{words.job, words.ranks, words.quota, words.has_parent, words.children},
      members_(words.members),
      sl_(words.sl),
      made_(now) {}

std::size_t NodeLinks::message_bytes() const { return segment_header + job_.quota.segment_bytes; }

Outcome<void> NodeLinks::make_memory() {
  const std::size_t count = job_.children.size() + (job_.has_parent ? 1 : 0);
  auto receives = Region::make(port_.domain, count * depth() * message_bytes());
  if (!receives) return tl::unexpected(receives.error());
  receives_ = std::move(*receives);
  auto places = Region::make(port_.domain, Node::memory_for(job_.quota));
  if (!places) return tl::unexpected(places.error());
  places_ = std::move(*places);
  node_ = std::make_unique<Node>(job_, places_.bytes());
  links_.resize(count);
  return {};
}

Outcome<void> NodeLinks::make_pairs() {
  const u32 sends = 2 * job_.quota.outstanding + 8;
  auto completions =
      coll::innetwork::Completions::make(port_.context, static_cast<u32>(links_.size()) * (sends + depth()));
  if (!completions) return tl::unexpected(completions.error());
  completions_ = std::move(*completions);
  const PairSettings settings{.sl = sl_, .timeout = answer_time, .retries = retries};
  for (Link& link : links_) {
    auto pair = Pair::make(port_, completions_.queue.get(), sends, depth(), settings);
    if (!pair) return tl::unexpected(pair.error());
    link.pair = std::move(*pair);
  }
  for (u64 receive = 0; receive < links_.size() * depth(); ++receive) post(receive);
  return {};
}

Prepared NodeLinks::ends() const {
  Prepared prepared;
  for (u32 link = 0; link < links_.size(); ++link)
    is_parent(link) ? void(prepared.parent = links_[link].pair.end())
                    : prepared.children.push_back(links_[link].pair.end());
  return prepared;
}

Outcome<void> NodeLinks::connect(const ConnectJob& words) {
  if (connected_) return {};
  if (words.children.size() != job_.children.size())
    return coll::refuse(Code::invalid_usage, "not the children that were prepared for");
  for (u32 link = 0; link < links_.size(); ++link) {
    auto done = links_[link].pair.connect(is_parent(link) ? words.parent : words.children[link]);
    if (!done) return coll::refuse(done.error().code, fmt::format("{}: {}", name_of(link), done.error().text));
  }
  connected_ = true;
  return {};
}

std::string NodeLinks::name_of(u32 link) const {
  return is_parent(link) ? std::string("the parent node") : job_.children[link];
}

std::span<std::byte> NodeLinks::receive_memory(u64 receive) const {
  return receives_.bytes().subspan(receive * message_bytes(), message_bytes());
}

void NodeLinks::post(u64 receive) {
  const Link& link = links_[receive / depth()];
  const u64 name = u64{static_cast<u8>(Task::receive)} << task_shift | receive;
  if (!link.lost) static_cast<void>(link.pair.receive(name, receive_memory(receive), receives_.key()));
}

bool NodeLinks::turn(Time now) {
  std::array<ibv_wc, 32> done{};
  const int count = ::ibv_poll_cq(completions_.queue.get(), static_cast<int>(done.size()), done.data());
  for (int i = 0; i < count; ++i) complete(done[static_cast<std::size_t>(i)], now);
  if (count > 0 && over_ && when_over_) when_over_();
  return count > 0;
}

void NodeLinks::complete(const ibv_wc& completion, Time now) {
  const auto task = static_cast<Task>(completion.wr_id >> task_shift);
  const u64 rest = completion.wr_id & ((u64{1} << task_shift) - 1);
  const auto number = static_cast<u32>(task == Task::receive ? rest / depth() : rest >> link_shift);
  Link& link = links_[number];
  if (link.lost) return;  // its sends are accounted for
  if (completion.status != IBV_WC_SUCCESS)
    return lose(number, fmt::format("{}: {}", name_of(number), ::ibv_wc_status_str(completion.status)), now);
  link.heard = now;
  if (task == Task::probe) link.probing = false;
  if (task == Task::receive) take(number, rest, completion.byte_len);
  if (task == Task::send) {
    link.sends.pop_front();
    node_->sent(static_cast<u32>(rest), actions_);
  }
  perform(now);
}

void NodeLinks::take(u32 link, u64 receive, u32 bytes) {
  const Arrived message{receive, receive_memory(receive).first(bytes)};
  is_parent(link) ? node_->from_parent(message, actions_) : node_->from_child(link, message, actions_);
}

void NodeLinks::perform(Time now) {
  while (!actions_.empty()) {
    std::vector<Action> actions = std::move(spare_);
    actions.swap(actions_);
    for (const Action& action : actions) {
      if (action.kind == Action::Kind::give_back) {
        post(action.receive);
      } else {
        send(action.kind == Action::Kind::send_up ? static_cast<u32>(job_.children.size()) : action.child, action, now);
      }
    }
    actions.clear();
    spare_ = std::move(actions);
  }
  look_at_end(now);
}

void NodeLinks::send(u32 number, const Action& action, Time now) {
  Link& link = links_[number];
  if (link.lost) return node_->sent(action.holder, actions_);
  const bool own = action.bytes.data() >= places_.bytes().data() &&
                   action.bytes.data() < places_.bytes().data() + places_.bytes().size();
  const u64 name = u64{static_cast<u8>(Task::send)} << task_shift | u64{number} << link_shift | action.holder;
  link.sends.push_back(action.holder);
  if (!link.pair.send(name, action.bytes, own ? places_.key() : receives_.key()))
    lose(number, fmt::format("{}: it can't be sent to", name_of(number)), now);
}

// Whose absence is the end of the job.
bool NodeLinks::is_needed(u32 link) const { return is_parent(link) ? !node_->is_over() : !node_->has_left(link); }

void NodeLinks::lose(u32 number, const std::string& why, Time now) {
  Link& link = links_[number];
  link.lost = true;
  link.pair.close();
  for (const u32 holder : std::exchange(link.sends, {})) node_->sent(holder, actions_);
  if (is_needed(number)) node_->fail(why, actions_);
  perform(now);
}

void NodeLinks::dismiss(const std::string& why, Time now) {
  if (!connected_) over_ = true;
  if (!node_->is_over()) node_->fail(why, actions_);
  perform(now);
}

void NodeLinks::look_at_end(Time now) {
  if (node_->failure() && !failed_) failed_ = now;
  if (failed_)
    over_ = over_ || node_->is_idle() || now > *failed_ + timing_.farewell;
  else if (node_->is_over())
    over_ = node_->is_idle();
}

void NodeLinks::probe_silent(Time now) {
  for (u32 number = 0; number < links_.size(); ++number) {
    Link& link = links_[number];
    if (link.lost || link.probing || !link.sends.empty() || !link.heard || !is_needed(number)) continue;
    if (now - *link.heard < timing_.keep_alive) continue;
    link.probing = link.pair.probe(u64{static_cast<u8>(Task::probe)} << task_shift | u64{number} << link_shift);
  }
}

void NodeLinks::on_time(Time now) {
  look_at_end(now);
  if (over_) return;
  if (!connected_) {
    over_ = now > made_ + timing_.arrival;
    return;
  }
  if (now > made_ + timing_.arrival)
    for (u32 member = 0; member < members_; ++member)
      if (!node_->has_spoken(member) && !links_[member].lost)
        lose(member, fmt::format("{} never came", name_of(member)), now);
  probe_silent(now);
}

}  // namespace softib::aggregation
