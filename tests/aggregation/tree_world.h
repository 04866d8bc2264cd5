// A tree of aggregation nodes and the hosts below it, in one process: which message arrives next and which send is
// found to be over next is up to chance.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "aggregation/node.h"

namespace softib::aggregation::test {

using coll::innetwork::Quota;
using coll::innetwork::Segment;
using Message = std::vector<std::byte>;

// A host: sends the segments of its vector, as many at once as it may, and keeps what comes back.
struct Host {
  std::string name;
  std::vector<Segment> segments;
  std::vector<Message> data;  // what it gives, by segment
  std::vector<Message> results;
  std::string failure;
  u64 sent = 0;
  bool leaves = true;  // in order, at the end
  bool left = false;
  bool dead = false;
};

class TreeWorld {
 public:
  // Nodes by parent: parents[i] is the node above node i, or -1. Each host hangs on a node.
  TreeWorld(u64 seed, const Quota& quota, std::vector<i32> parents, std::vector<u32> node_of_host);

  std::vector<Host> hosts;
  void run();           // until nothing is under way
  bool step();          // false: nothing is under way
  void kill(u32 host);  // without a word: its node hears of it from the queue pair
  void inject(u32 host, Message message);

  [[nodiscard]] const Node& node(u32 index) const { return *nodes_[index].node; }
  [[nodiscard]] std::size_t receives_out(u32 index) const { return nodes_[index].receives.size(); }
  [[nodiscard]] std::size_t most_receives(u32 index) const { return nodes_[index].most_receives; }
  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }
  static constexpr u32 job = 77;

 private:
  // A child of a node, or a node's parent.
  struct Peer {
    bool is_host = false;
    u32 index = 0;
    u32 place = 0;  // which child of the parent
  };
  struct Placed {
    std::unique_ptr<Node> node;
    std::vector<std::byte> memory;
    std::vector<Peer> children;
    std::optional<Peer> parent;
    std::map<u64, Message> receives;
    std::size_t most_receives = 0;
    std::vector<u32> sends;  // holders whose sends aren't known to be over
  };
  struct Channel {
    std::deque<Message> messages;
  };

  void act(u32 index, const std::vector<Action>& actions);
  void deliver_to_node(u32 index, std::optional<u32> child, const Message& message);
  void deliver_to_host(u32 host, const Message& message);
  void host_sends(u32 host);
  [[nodiscard]] bool may_send(const Host& host) const;

  std::mt19937_64 random_;
  Quota quota_;
  std::vector<Placed> nodes_;
  std::vector<Peer> above_;  // of hosts: node and place
  // By sender and receiver: hosts are numbered behind the nodes.
  std::map<std::pair<u32, u32>, Channel> channels_;
  u64 next_receive_ = 1;
};

}  // namespace softib::aggregation::test
