#include "tree_world.h"

#include <algorithm>

namespace softib::aggregation::test {

using coll::innetwork::segment_header;
using coll::innetwork::SegmentKind;

namespace {

Message message_of(const Segment& segment, const Message& data) {
  Message message(segment_header);
  coll::innetwork::emit(segment, message.data());
  if (segment.gives) message.insert(message.end(), data.begin(), data.end());
  return message;
}

}  // namespace

TreeWorld::TreeWorld(u64 seed, const Quota& quota, std::vector<i32> parents, std::vector<u32> node_of_host)
    : hosts(node_of_host.size()), random_(seed), quota_(quota), nodes_(parents.size()), above_(node_of_host.size()) {
  std::vector<NodeJob> jobs(parents.size());
  for (u32 host = 0; host < hosts.size(); ++host) {
    Placed& node = nodes_[node_of_host[host]];
    hosts[host].name = "host" + std::to_string(host);
    above_[host] = {false, node_of_host[host], static_cast<u32>(node.children.size())};
    node.children.push_back({true, host, 0});
    jobs[node_of_host[host]].children.push_back(hosts[host].name);
  }
  for (u32 i = 0; i < parents.size(); ++i) {
    if (parents[i] < 0) continue;
    const auto parent = static_cast<u32>(parents[i]);
    nodes_[i].parent = Peer{false, parent, static_cast<u32>(nodes_[parent].children.size())};
    nodes_[parent].children.push_back({false, i, 0});
    jobs[parent].children.push_back("node" + std::to_string(i));
    jobs[i].has_parent = true;
  }
  for (u32 i = 0; i < parents.size(); ++i) {
    jobs[i].job = job;
    jobs[i].ranks = static_cast<u32>(hosts.size());
    jobs[i].quota = quota;
    nodes_[i].memory.resize(Node::memory_for(quota));
    nodes_[i].node = std::make_unique<Node>(jobs[i], nodes_[i].memory);
  }
}

bool TreeWorld::may_send(const Host& host) const {
  return !host.dead && !host.left && host.failure.empty() &&
         (host.sent < host.segments.size() ? host.sent < host.results.size() + quota_.outstanding
                                           : host.leaves && host.results.size() == host.segments.size());
}

void TreeWorld::host_sends(u32 index) {
  Host& host = hosts[index];
  const auto from = static_cast<u32>(nodes_.size() + index);
  auto& channel = channels_[{from, above_[index].index}].messages;
  if (host.sent == host.segments.size()) {
    host.left = true;
    channel.push_back(message_of({.kind = SegmentKind::bye, .job = job}, {}));
    return;
  }
  Segment segment = host.segments[host.sent];
  segment.kind = SegmentKind::contribution;
  segment.job = job;
  segment.sequence = host.sent;
  channel.push_back(message_of(segment, host.data[host.sent]));
  ++host.sent;
}

void TreeWorld::inject(u32 host, Message message) {
  channels_[{static_cast<u32>(nodes_.size() + host), above_[host].index}].messages.push_back(std::move(message));
}

void TreeWorld::act(u32 index, const std::vector<Action>& actions) {
  Placed& placed = nodes_[index];
  for (const Action& action : actions) {
    if (action.kind == Action::Kind::give_back) {
      placed.receives.erase(action.receive);
      continue;
    }
    const Peer& peer = action.kind == Action::Kind::send_up ? *placed.parent : placed.children[action.child];
    const u32 to = peer.is_host ? static_cast<u32>(nodes_.size() + peer.index) : peer.index;
    channels_[{index, to}].messages.emplace_back(action.bytes.begin(), action.bytes.end());
    placed.sends.push_back(action.holder);
  }
}

void TreeWorld::deliver_to_node(u32 index, std::optional<u32> child, const Message& message) {
  Placed& placed = nodes_[index];
  const u64 receive = next_receive_++;
  Message& kept = placed.receives[receive] = message;
  placed.most_receives = std::max(placed.most_receives, placed.receives.size());
  std::vector<Action> actions;
  if (child)
    placed.node->from_child(*child, {receive, kept}, actions);
  else
    placed.node->from_parent({receive, kept}, actions);
  act(index, actions);
}

void TreeWorld::deliver_to_host(u32 index, const Message& message) {
  Host& host = hosts[index];
  if (host.dead || host.left) return;
  const auto segment = coll::innetwork::parse_segment(message);
  const Message data(message.begin() + segment_header, message.end());
  if (segment->kind == SegmentKind::failure) {
    host.failure.assign(reinterpret_cast<const char*>(data.data()), data.size());
    return;
  }
  if (segment->kind != SegmentKind::result || segment->sequence != host.results.size())
    host.failure = "a result that nobody waits for";
  host.results.push_back(data);
}

void TreeWorld::kill(u32 index) {
  hosts[index].dead = true;
  std::vector<Action> actions;
  const u32 node = above_[index].index;
  nodes_[node].node->fail(hosts[index].name + " died", actions);
  act(node, actions);
  // The manager tells the other nodes.
  for (u32 other = 0; other < nodes_.size(); ++other) {
    actions.clear();
    nodes_[other].node->fail(hosts[index].name + " died", actions);
    act(other, actions);
  }
}

bool TreeWorld::step() {
  std::vector<std::pair<u32, u32>> ready;
  for (auto& [ends, channel] : channels_)
    if (!channel.messages.empty()) ready.push_back(ends);
  const std::size_t messages = ready.size();
  for (u32 host = 0; host < hosts.size(); ++host)
    if (may_send(hosts[host])) ready.push_back({host, ~0U});
  for (u32 node = 0; node < nodes_.size(); ++node)
    if (!nodes_[node].sends.empty()) ready.push_back({node, ~0U - 1});
  if (ready.empty()) return false;
  const std::size_t choice = random_() % ready.size();
  const auto [from, to] = ready[choice];
  if (choice >= messages && to == ~0U) {
    host_sends(from);
  } else if (choice >= messages) {
    auto& sends = nodes_[from].sends;
    std::swap(sends[random_() % sends.size()], sends.back());
    const u32 holder = sends.back();
    sends.pop_back();
    std::vector<Action> actions;
    nodes_[from].node->sent(holder, actions);
    act(from, actions);
  } else {
    auto& channel = channels_[{from, to}].messages;
    const Message message = std::move(channel.front());
    channel.pop_front();
    if (to >= nodes_.size()) {
      deliver_to_host(to - static_cast<u32>(nodes_.size()), message);
    } else if (from >= nodes_.size()) {
      deliver_to_node(to, above_[from - nodes_.size()].place, message);
    } else if (nodes_[from].parent && nodes_[from].parent->index == to) {
      deliver_to_node(to, nodes_[from].parent->place, message);
    } else {
      deliver_to_node(to, std::nullopt, message);
    }
  }
  return true;
}

void TreeWorld::run() {
  while (step()) {
  }
}

}  // namespace softib::aggregation::test
