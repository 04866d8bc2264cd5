#include "daemon/mad/layer.h"

#include <algorithm>
#include <utility>

#include "base/durations.h"

namespace softib::daemon {

namespace {

namespace header = wire::header;

constexpr u32 header_size = 24;
constexpr u64 never = ~0ULL;
// Of the transaction id: says whose request it is.
constexpr wire::Field owner{header::transaction.at, 32};

bool asks(const wire::Mad& mad) { return !wire::is_response(mad); }

}  // namespace

// The long messages of a port's queue pair 1, in segments.
class MadLayer::Transfers final : private wire::rmpp::Exchange::Owner {
 public:
  Transfers(MadLayer& layer, u32 port) : layer_(layer), port_(port), exchange_(*this) {}

  // `packet` has the addresses that every segment goes out with.
  void send(const wire::Packet& packet, std::span<const u8> mad, u64 now) {
    const auto peer = peer_of(packet, packet.dlid, packet.destination_qp);
    const u32 offset = wire::rmpp::data_offset(peer.mgmt_class);
    addresses_[peer] = packet;
    wire::rmpp::Message message{packet.mad, {}};
    if (mad.size() > offset) message.data.assign(mad.begin() + offset, mad.end());
    exchange_.send(peer, std::move(message), now);
  }

  void received(const wire::Packet& packet, u64 now) {
    const auto peer = peer_of(packet, packet.slid, packet.source_qp);
    // Answers to segments of ours go the way that those went.
    if (!addresses_.contains(peer)) addresses_[peer] = layer_.way_back(port_, packet);
    if (wire::rmpp::type_of(packet.mad) == wire::rmpp::Type::data) last_[peer] = packet;
    exchange_.received(peer, packet.mad, now);
  }

  u64 on_time(u64 now) { return exchange_.on_time(now); }

 private:
  using Peer = wire::rmpp::Peer;

  static Peer peer_of(const wire::Packet& packet, u16 lid, u32 qp) {
    return {lid, qp, get(packet.mad, header::transaction), wire::class_of(packet.mad)};
  }
  void transmit(const Peer& peer, const wire::Mad& mad) override {
    auto found = addresses_.find(peer);
    if (found == addresses_.end()) return;
    wire::Packet packet = found->second;
    packet.mad = mad;
    layer_.outside_.send(port_, packet);
  }
  void arrived(const Peer& peer, wire::rmpp::Message message) override {
    auto found = last_.find(peer);
    if (found == last_.end()) return;
    const wire::Packet packet = found->second;
    last_.erase(found);
    layer_.received_message(port_, packet, message);
  }
  void sent(const Peer&, wire::rmpp::Outcome, wire::rmpp::Status) override {}
  void forgotten(const Peer& peer) override {
    addresses_.erase(peer);
    last_.erase(peer);
  }

  MadLayer& layer_;
  u32 port_;
  wire::rmpp::Exchange exchange_;
  std::map<Peer, wire::Packet> addresses_;
  std::map<Peer, wire::Packet> last_;  // a segment of each message that is coming in: whose it is, where it is from
};

MadLayer::MadLayer(Outside& outside) : outside_(outside) {}

MadLayer::~MadLayer() = default;

MadLayer::Transfers& MadLayer::transfers(u32 port) {
  auto& found = transfers_[port];
  if (!found) found = std::make_unique<Transfers>(*this, port);
  return *found;
}

u32 MadLayer::open(u32 port) {
  files_.emplace(++last_file_, File{port, {}});
  return last_file_;
}

void MadLayer::close(u32 file) {
  auto found = files_.find(file);
  if (found == files_.end()) return;
  for (u32 id : found->second.agents)
    if (id) drop_agent(id);
  files_.erase(found);
}

std::vector<u32> MadLayer::files_of(u32 port) const {
  std::vector<u32> files;
  for (const auto& [id, file] : files_)
    if (file.port == port) files.push_back(id);
  return files;
}

Result<u32> MadLayer::add_agent(u32 file, const Registration& wanted) {
  auto found = files_.find(file);
  if (found == files_.end()) return fail(EINVAL);
  if (auto checked = check(wanted); !checked) return fail(checked.error());
  auto& slots = found->second.agents;
  auto free = std::find(slots.begin(), slots.end(), 0U);
  if (free == slots.end()) return fail(ENOMEM);
  const u32 port = found->second.port;
  for (const auto& [id, other] : agents_)
    if (other.port == port && collide(other.registration, wanted)) return fail(EINVAL);
  const auto number = static_cast<u32>(free - slots.begin());
  *free = ++last_agent_;
  agents_.emplace(last_agent_, Agent{file, number, port, wanted});
  return number;
}

Result<void> MadLayer::remove_agent(u32 file, u32 number) {
  auto found = files_.find(file);
  if (found == files_.end() || number >= agents_per_file || !found->second.agents[number]) return fail(EINVAL);
  drop_agent(std::exchange(found->second.agents[number], 0));
  return {};
}

void MadLayer::drop_agent(u32 id) {
  std::erase_if(deadlines_, [&](const auto& entry) { return requests_.at(entry.second).agent == id; });
  std::erase_if(requests_, [&](const auto& entry) { return entry.second.agent == id; });
  agents_.erase(id);
}

MadLayer::Agent* MadLayer::find(u32 file, u32 number) {
  auto found = files_.find(file);
  if (found == files_.end() || number >= agents_per_file) return nullptr;
  auto agent = agents_.find(found->second.agents[number]);
  return agent == agents_.end() ? nullptr : &agent->second;
}

// -- out

wire::Packet MadLayer::make_packet(const Agent& agent, const ipc::UmadFrame& frame, std::span<const u8> mad) const {
  wire::Packet packet;
  packet.slid = static_cast<u16>(outside_.lid(agent.port) | frame.path_bits);
  packet.dlid = frame.lid;
  packet.sl = frame.sl;
  packet.pkey = outside_.pkey(agent.port, frame.pkey_index);
  packet.source_qp = agent.registration.qpn;
  packet.destination_qp = frame.qpn;
  packet.qkey = frame.qkey;
  if (frame.grh_present) {
    wire::GlobalRoute route;
    route.source = outside_.gid(agent.port, frame.gid_index);
    std::copy_n(frame.gid, route.destination.size(), route.destination.begin());
    route.flow_label = frame.flow_label;
    route.hop_limit = frame.hop_limit;
    route.traffic_class = frame.traffic_class;
    packet.global = route;
  }
  std::copy_n(mad.begin(), std::min<size_t>(mad.size(), packet.mad.size()), packet.mad.begin());
  return packet;
}

Result<void> MadLayer::write(u32 file, const ipc::UmadFrame& frame, std::span<const u8> mad, u64 now) {
  Agent* agent = find(file, frame.agent);
  if (!agent || mad.size() < ipc::shortest_mad) return fail(EINVAL);
  wire::Packet packet = make_packet(*agent, frame, mad);
  if (asks(packet.mad)) {
    const u32 id = files_.at(file).agents[frame.agent];
    wire::set(packet.mad, owner, id);
    if (requests_.contains(get(packet.mad, header::transaction))) return fail(EINVAL);
    if (frame.timeout_ms) await(id, packet, frame, now);
  }
  const u32 port = agent->port;
  if (agent->registration.has_rmpp() && has_rmpp_header(mad[1]) && wire::rmpp::is_active(packet.mad))
    transfers(port).send(packet, mad, now);
  else
    outside_.send(port, packet);
  return {};
}

// Before the packet goes out: the response may come within the call that sends it.
void MadLayer::await(u32 agent, const wire::Packet& packet, const ipc::UmadFrame& frame, u64 now) {
  const u64 timeout = u64{frame.timeout_ms} * ns::millisecond;
  const u64 transaction = get(packet.mad, header::transaction);
  requests_.emplace(transaction, Request{agent, packet, timeout, frame.retries, now + timeout});
  deadlines_.emplace(now + timeout, transaction);
}

// The response is on its way.
void MadLayer::await_longer(u64 transaction, u64 now) {
  auto found = requests_.find(transaction);
  if (found == requests_.end()) return;
  deadlines_.erase({found->second.deadline, transaction});
  found->second.deadline = now + found->second.timeout_ns;
  deadlines_.emplace(found->second.deadline, transaction);
}

void MadLayer::forget(u64 transaction) {
  auto found = requests_.find(transaction);
  deadlines_.erase({found->second.deadline, transaction});
  requests_.erase(found);
}

u64 MadLayer::on_time(u64 now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const u64 transaction = deadlines_.begin()->second;
    Request& request = requests_.at(transaction);
    if (request.retries_left == 0) {
      const Request late = request;
      forget(transaction);
      report_timeout(late);
      continue;
    }
    --request.retries_left;
    deadlines_.erase(deadlines_.begin());
    request.deadline = now + request.timeout_ns;
    deadlines_.emplace(request.deadline, transaction);
    const wire::Packet again = request.packet;
    outside_.send(agents_.at(request.agent).port, again);
  }
  u64 next = deadlines_.empty() ? never : deadlines_.begin()->first;
  for (auto& [port, transfers] : transfers_) next = std::min(next, transfers->on_time(now));
  return next;
}

// The program gets its request's header back.
void MadLayer::report_timeout(const Request& request) {
  const Agent& agent = agents_.at(request.agent);
  ipc::UmadFrame frame = describe(agent, request.packet, header_size);
  frame.status = ETIMEDOUT;
  frame.lid = request.packet.dlid;
  frame.qpn = request.packet.destination_qp;
  outside_.deliver(agent.file, frame, std::span(request.packet.mad).first(header_size));
}

// -- in

MadLayer::Agent* MadLayer::agent_for(u32 port, const wire::Packet& packet) {
  if (wire::is_response(packet.mad)) {
    auto found = agents_.find(static_cast<u32>(wire::get(packet.mad, owner)));
    bool is_here =
        found != agents_.end() && found->second.port == port && found->second.registration.qpn == packet.destination_qp;
    return is_here ? &found->second : nullptr;
  }
  for (auto& [id, agent] : agents_)
    if (agent.port == port && wants(agent.registration, packet.destination_qp, packet.mad)) return &agent;
  return nullptr;
}

ipc::UmadFrame MadLayer::describe(const Agent& agent, const wire::Packet& packet, u32 length) const {
  ipc::UmadFrame frame{};
  frame.agent = agent.number;
  frame.length = length;
  frame.qpn = packet.source_qp;
  frame.lid = packet.slid;
  frame.sl = packet.sl;
  if (packet.dlid < wire::first_multicast_lid) {
    const u16 own = outside_.lid(agent.port);
    frame.path_bits = own && packet.dlid >= own ? static_cast<u8>((packet.dlid - own) & 0x7f) : 0;
  }
  frame.pkey_index = outside_.pkey_index(agent.port, packet.pkey);
  if (packet.global) {
    frame.grh_present = 1;
    frame.hop_limit = packet.global->hop_limit;
    frame.traffic_class = packet.global->traffic_class;
    frame.flow_label = packet.global->flow_label;
    std::copy_n(packet.global->source.begin(), packet.global->source.size(), frame.gid);
  }
  return frame;
}

// A segment of a long message, for an agent that gets it whole. False: for nobody of that kind.
bool MadLayer::received_segment(u32 port, const wire::Packet& packet, u64 now) {
  if (wire::rmpp::type_of(packet.mad) == wire::rmpp::Type::data) {
    const Agent* agent = agent_for(port, packet);
    if (!agent || !agent->registration.has_rmpp()) return false;
    if (wire::is_response(packet.mad)) await_longer(get(packet.mad, header::transaction), now);
  } else if (!transfers_.contains(port)) {
    return false;
  }
  transfers(port).received(packet, now);
  return true;
}

void MadLayer::received_message(u32 port, const wire::Packet& last, const wire::rmpp::Message& message) {
  const Agent* agent = agent_for(port, last);
  if (!agent) return;
  if (wire::is_response(last.mad)) {
    const u64 transaction = get(last.mad, header::transaction);
    if (!requests_.contains(transaction)) return;
    forget(transaction);
  }
  const u32 offset = wire::rmpp::data_offset(wire::class_of(last.mad));
  std::vector<u8> whole(message.head.begin(), message.head.begin() + offset);
  whole.insert(whole.end(), message.data.begin(), message.data.end());
  outside_.deliver(agent->file, describe(*agent, last, static_cast<u32>(whole.size())), whole);
}

bool MadLayer::received(u32 port, const wire::Packet& packet, u64 now) {
  if (has_rmpp_header(static_cast<u8>(wire::class_of(packet.mad))) && wire::rmpp::is_active(packet.mad) &&
      received_segment(port, packet, now))
    return true;
  const Agent* agent = agent_for(port, packet);
  if (!agent) {
    if (wire::is_response(packet.mad)) return false;
    refuse(port, packet);
    return false;
  }
  if (wire::is_response(packet.mad)) {
    const u64 transaction = get(packet.mad, header::transaction);
    if (!requests_.contains(transaction)) return true;  // too late: dropped, as the kernel does
    forget(transaction);
  }
  outside_.deliver(agent->file, describe(*agent, packet, wire::mad_size), packet.mad);
  return true;
}

wire::Packet MadLayer::way_back(u32 port, const wire::Packet& packet) const {
  wire::Packet back = packet;
  wire::turn_round(back);
  back.pkey = outside_.pkey(port, outside_.pkey_index(port, packet.pkey));
  return back;
}

// A request that nobody wants gets an answer that says so.
void MadLayer::refuse(u32 port, const wire::Packet& packet) {
  const wire::Method method = wire::method_of(packet.mad);
  if (method != wire::Method::get && method != wire::Method::set) return;
  wire::Packet answer = way_back(port, packet);
  set(answer.mad, header::method, static_cast<u64>(wire::Method::get_resp));
  const u64 direction = wire::class_of(packet.mad) == wire::MgmtClass::subn_directed ? wire::directed_bit : 0;
  set(answer.mad, header::status, direction | static_cast<u64>(wire::MadStatus::bad_attribute));
  outside_.send(port, answer);
}

}  // namespace softib::daemon
