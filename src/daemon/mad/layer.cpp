#include "daemon/mad/layer.h"

#include <algorithm>
#include <utility>

namespace softib::daemon {

namespace {

namespace header = wire::header;

constexpr u32 shortest_mad = 36;  // the kernel wants the RMPP header's room in any case
constexpr u32 header_size = 24;
constexpr u64 never = ~0ULL;
// Of the transaction id: says whose request it is.
constexpr wire::Field owner{header::transaction.at, 32};

bool asks(const wire::Mad& mad) { return !wire::is_response(mad); }

}  // namespace

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
  if (!agent || mad.size() < shortest_mad) return fail(EINVAL);
  wire::Packet packet = make_packet(*agent, frame, mad);
  if (asks(packet.mad)) {
    const u32 id = files_.at(file).agents[frame.agent];
    wire::set(packet.mad, owner, id);
    if (requests_.contains(get(packet.mad, header::transaction))) return fail(EINVAL);
    if (frame.timeout_ms) await(id, packet, frame, now);
  }
  const u32 port = agent->port;
  outside_.send(port, packet);
  return {};
}

// Before the packet goes out: the response may come within the call that sends it.
void MadLayer::await(u32 agent, const wire::Packet& packet, const ipc::UmadFrame& frame, u64 now) {
  const u64 timeout = u64{frame.timeout_ms} * 1'000'000;
  const u64 transaction = get(packet.mad, header::transaction);
  requests_.emplace(transaction, Request{agent, packet, timeout, frame.retries, now + timeout});
  deadlines_.emplace(now + timeout, transaction);
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
  return deadlines_.empty() ? never : deadlines_.begin()->first;
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

bool MadLayer::received(u32 port, const wire::Packet& packet, u64) {
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

// A request that nobody wants gets an answer that says so.
void MadLayer::refuse(u32 port, const wire::Packet& packet) {
  const wire::Method method = wire::method_of(packet.mad);
  if (method != wire::Method::get && method != wire::Method::set) return;
  wire::Packet answer = packet;
  std::swap(answer.slid, answer.dlid);
  std::swap(answer.source_qp, answer.destination_qp);
  if (answer.global) std::swap(answer.global->source, answer.global->destination);
  set(answer.mad, header::method, static_cast<u64>(wire::Method::get_resp));
  const u64 direction = wire::class_of(packet.mad) == wire::MgmtClass::subn_directed ? wire::directed_bit : 0;
  set(answer.mad, header::status, direction | static_cast<u64>(wire::MadStatus::bad_attribute));
  outside_.send(port, answer);
}

}  // namespace softib::daemon
