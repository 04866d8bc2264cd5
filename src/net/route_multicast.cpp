// Multicast: copies spread along the switches' masks.
#include "net/route.h"

namespace softib::net {

namespace {

class Spread {
 public:
  Spread(const World& world, const Flow& flow) : world_(world), flow_(flow), seen_(world.switch_count) {}

  std::vector<Path> from(const Port& start) {
    if (const Loss loss = starting(world_, start, flow_); loss != Loss::none)
      end(loss, start, true);
    else if (world_.node(start).sw)
      at_switch(start);
    else
      leave(start);
    return std::move(paths_);
  }

 private:
  void end(Loss loss, const Port& at, bool leaving = false) { paths_.push_back({loss, at.ref, leaving, hops_}); }

  void leave(const Port& out) {
    if (!carries_data(world_, out)) return end(Loss::link_down, out, true);
    const Port& in = world_.ports[out.peer];
    hops_.push_back({out.ref, in.ref});
    if (in.enforce_in && !lets_in(in, flow_.pkey))
      end(Loss::bad_pkey, in);
    else if (world_.node(in).sw)
      at_switch(in);
    else
      end(arriving(in, flow_), in);
    hops_.pop_back();
  }

  void at_switch(const Port& in) {
    const Node& node = world_.node(in);
    if (seen_[in.ref.node]) return end(Loss::loop, in);  // a wrong tree: real packets would go round and round
    seen_[in.ref.node] = true;
    const size_t first = size_t{flow_.dlid - u32{wire::first_multicast_lid}} * node.sw->mask_words;
    bool any = false;
    for (u32 number = 0; number <= node.ports; ++number) {
      const size_t word = first + number / wire::multicast_forwarding::ports_per_position;
      if (word >= node.sw->multicast.size() || !(node.sw->multicast[word] >> number % 16 & 1)) continue;
      any = true;
      if (number != in.ref.port) copy(in, world_.ports[node.first + number]);
    }
    if (!any) end(Loss::no_route, in);
  }

  void copy(const Port& in, const Port& out) {
    if (const Loss loss = leaving(world_, in, out, flow_); loss != Loss::none) return end(loss, out, true);
    if (out.ref.port == 0) return end(arriving(out, flow_), out);
    leave(out);
  }

  const World& world_;
  Flow flow_;
  std::vector<bool> seen_;  // switches, which are the first nodes
  std::vector<Hop> hops_;
  std::vector<Path> paths_;
};

}  // namespace

std::vector<Path> walk_multicast(const World& world, PortRef from, const Flow& flow) {
  if (flow.dlid < wire::first_multicast_lid || flow.dlid == wire::permissive_lid) return {};
  return Spread(world, flow).from(world.port(from));
}

}  // namespace softib::net
