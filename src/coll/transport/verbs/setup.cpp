#include "coll/transport/verbs/setup.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "coll/log.h"
#include "coll/transport/verbs/verbs.h"

namespace softib::coll {

Outcome<std::unique_ptr<Transport>> VerbsTransport::create(Bootstrap& bootstrap, const Environment& environment,
                                                           std::span<const u32> peers) {
  return verbs::Setup(bootstrap, environment, peers).run();
}

}  // namespace softib::coll

namespace softib::coll::verbs {

namespace {

// Differs where byte order or the form of what is told does.
constexpr u64 greeting = 0x0002'636f'6c6c'7662;

constexpr u32 small_at_most = 8U << 10;
constexpr u32 small_at_least = 1U << 10;
constexpr u64 receive_memory = u64{16} << 20;  // for the control queue pairs' receives, all together
constexpr u32 send_slots = 64;
constexpr u32 pool_slot_bytes = 256U << 10;
constexpr u32 pool_slots = 64;
constexpr u32 pool_slots_at_least = 4;
constexpr u32 pool_slots_for_a_read_slot = 8;
constexpr u32 inline_wanted = 256;

void append(Bytes& bytes, const void* data, std::size_t size) {
  const std::size_t at = bytes.size();
  bytes.resize(at + size);
  if (size > 0) std::memcpy(bytes.data() + at, data, size);
}

std::string locked_memory_remedy(int error) {
  if (error != ENOMEM) return "";
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format(" (the limit of locked memory is {} KiB: raise it, ulimit -l)", limit.rlim_cur >> 10);
}

ibv_mtu mtu_of(u32 bytes) {
  u32 code = IBV_MTU_256;
  while (code < IBV_MTU_4096 && 128U << (code + 1) <= bytes) code++;
  return static_cast<ibv_mtu>(code);
}

u32 first_number(u32 pair_number) { return (pair_number * 0x9e37'79b1U) >> 8; }  // 24 bits, other ones each time

}  // namespace

Setup::Setup(Bootstrap& bootstrap, const Environment& environment, std::span<const u32> peers)
    : bootstrap_(bootstrap),
      environment_(environment),
      wanted_(peers),
      rank_(bootstrap.rank()),
      parts_(std::make_unique<Parts>()) {
  parts_->rank = rank_;
  const Member& me = bootstrap_.members()[rank_];
  parts_->self = name_of(me);
  parts_->timeout = environment.ib_timeout;
  parts_->retries = environment.ib_retry_cnt;
  parts_->reads = environment.ib_read;
}

Outcome<std::unique_ptr<Transport>> Setup::run() {
  prepare();
  const Hello hello = say_hello();
  auto said = agree(std::as_bytes(std::span(&hello, 1)));
  if (!said) return tl::unexpected(said.error());
  for (const u32 peer : wanted_) {
    if (!understand(peer, (*said)[peer])) break;
  }
  make_pairs();

  Bytes numbers;
  for (const auto& peer : parts_->peers) {
    PairNumbers mine{.rank = peer->rank, .control = peer->control->qp_num};
    for (std::size_t i = 0; i < peer->rails.size(); i++) mine.data[i] = peer->rails[i].pair->qp_num;
    append(numbers, &mine, sizeof mine);
  }
  auto theirs = agree(numbers);
  if (!theirs) return tl::unexpected(theirs.error());
  for (const auto& peer : parts_->peers) {
    const Bytes& blob = (*theirs)[peer->rank];
    PairNumbers for_me{.rank = ~0U};
    for (std::size_t at = 0; at + sizeof for_me <= blob.size() && for_me.rank != rank_; at += sizeof for_me)
      std::memcpy(&for_me, blob.data() + at, sizeof for_me);
    if (for_me.rank != rank_) {
      give_in(fmt::format("{} has no queue pairs for it", peer->title));
      break;
    }
    connect(*peer, for_me);
  }
  // Nobody sends before all can receive.
  if (auto ready = agree({}); !ready) return tl::unexpected(ready.error());
  tell_choice();
  return std::make_unique<Engine>(std::move(parts_), static_cast<u32>(bootstrap_.members().size()));
}

void Setup::give_in(std::string why) {
  if (!trouble_) trouble_ = std::move(why);
}

Outcome<std::vector<Bytes>> Setup::agree(std::span<const std::byte> mine) {
  Bytes blob;
  const std::string text = trouble_.value_or("");
  const auto text_bytes = static_cast<u32>(text.size());
  append(blob, &text_bytes, sizeof text_bytes);
  append(blob, text.data(), text.size());
  append(blob, mine.data(), mine.size());
  auto all = bootstrap_.all_gather(blob);
  if (!all) return tl::unexpected(all.error());
  std::string troubles;
  u32 troubled = 0;
  for (u32 rank = 0; rank < all->size(); rank++) {
    Bytes& said = (*all)[rank];
    u32 length = 0;
    if (said.size() >= sizeof length) std::memcpy(&length, said.data(), sizeof length);
    if (said.size() < sizeof length + length) return refuse(Code::internal_error, "verbs: a rank's words are cut off");
    const std::string word(reinterpret_cast<const char*>(said.data()) + sizeof length, length);
    said.erase(said.begin(), said.begin() + static_cast<std::ptrdiff_t>(sizeof length + length));
    if (length == 0 || troubled++ >= 3) continue;
    const Member& member = bootstrap_.members()[rank];
    troubles += fmt::format("{}rank {} on {}: {}", troubles.empty() ? "" : "; ", rank, member.host, word);
  }
  if (troubled > 3) troubles += fmt::format("; and {} more ranks", troubled - 3);
  if (troubled > 0) return refuse(Code::system_error, troubles);
  return std::move(*all);
}

// -- before anybody is known
// -------------------------------------------------------------------------------------------

void Setup::prepare() {
  RegistrarLimits limits;
  limits.keep_all = environment_.ib_mr_cache;
  limits.on_demand = environment_.ib_odp;
  if (!wanted_.empty()) parts_->devices = Devices::open(environment_);
  parts_->registrar = std::make_unique<Registrar>(parts_->devices.all, static_cast<i32>(rank_), limits);
  if (wanted_.empty()) return;
  if (parts_->devices.ports.empty()) return give_in(parts_->devices.why_none());
  fit_depths();
  const auto entries =
      static_cast<u32>(wanted_.size()) * parts_->depths.entries(static_cast<u32>(parts_->devices.ports.size()));
  for (Device& device : parts_->devices.all) {
    if (!make_queue(device, entries))
      return give_in(fmt::format("{}: completion queue of {}: {}", device.name, entries, std::strerror(errno)));
  }
  if (make_slots()) make_pool();
}

void Setup::fit_depths() {
  const auto rails = static_cast<u32>(parts_->devices.ports.size());
  for (const Device& device : parts_->devices.all) {
    const auto entries = [&] { return u64{wanted_.size()} * parts_->depths.entries(rails); };
    const u64 limit = static_cast<u64>(device.limits.max_cqe);
    while (entries() > limit && parts_->depths.control_receives > 8) parts_->depths.halve();
    while (parts_->depths.control_sends > static_cast<u32>(device.limits.max_qp_wr) &&
           parts_->depths.control_receives > 8)
      parts_->depths.halve();
  }
}

bool Setup::make_slots() {
  auto& parts = *parts_;
  const u32 receives = static_cast<u32>(wanted_.size()) * parts.depths.control_receives;
  const u32 payload =
      static_cast<u32>(std::clamp<u64>(receive_memory / receives / 64 * 64, small_at_least, small_at_most));
  const u32 bytes = payload + 64;
  if (parts.receive_slots.make(parts.devices.all, receives, bytes, IBV_ACCESS_LOCAL_WRITE) &&
      parts.send_slots.make(parts.devices.all, send_slots, bytes, IBV_ACCESS_LOCAL_WRITE))
    return true;
  give_in(fmt::format("registering {} KiB for small messages: {}{}", (receives + send_slots) * u64{bytes} >> 10,
                      std::strerror(errno), locked_memory_remedy(errno)));
  return false;
}

void Setup::make_pool() {
  auto& parts = *parts_;
  int error = 0;
  for (u32 slots = pool_slots; slots >= pool_slots_at_least; slots /= 2) {
    if (parts.pool.make(parts.devices.all, slots, pool_slot_bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)) {
      for (u32 i = 0; i < slots / pool_slots_for_a_read_slot; i++) parts.read_slots.push_back(*parts.pool.take());
      return;
    }
    error = errno;
  }
  give_in(fmt::format("registering {} KiB of bounce buffers: {}{}", pool_slots_at_least * pool_slot_bytes >> 10,
                      std::strerror(error), locked_memory_remedy(error)));
}

Hello Setup::say_hello() const {
  Hello hello;
  hello.magic = greeting;
  if (wanted_.empty() || trouble_) return hello;
  hello.ports = static_cast<u32>(parts_->devices.ports.size());
  hello.control_receives = parts_->depths.control_receives;
  hello.slot_bytes = parts_->receive_slots.slot_bytes();
  hello.pool_slot_bytes = parts_->pool.slot_bytes();
  hello.pool_address = reinterpret_cast<u64>(parts_->pool.at(0));
  hello.reads_answered = reads_at_once(&ibv_device_attr::max_qp_rd_atom);
  for (u32 i = 0; i < hello.ports; i++) {
    const Port& port = parts_->devices.ports[i];
    PortAddress& address = hello.port[i];
    std::copy_n(port.name.data(), std::min(port.name.size(), address.name.size() - 1), address.name.data());
    address.gid = port.gid.gid;
    address.mtu = port.mtu;
    address.pool_key = parts_->pool.remote_key(port.device);
    address.lid = port.lid;
    address.layer = port.layer;
    address.gid_kind = port.gid.kind;
  }
  return hello;
}

// What all HCAs can, and more than there is use for isn't asked for.
u32 Setup::reads_at_once(int ibv_device_attr::*limit) const {
  u32 reads = parts_->depths.data_reads;
  for (const Device& device : parts_->devices.all) reads = std::min(reads, static_cast<u32>(device.limits.*limit));
  return reads;
}

// -- once the others' ports are known
// ----------------------------------------------------------------------------------

bool Setup::understand(u32 rank, const Bytes& said) {
  Hello hello;
  if (said.size() == sizeof hello) std::memcpy(&hello, said.data(), sizeof hello);
  const std::string title = name_of(bootstrap_.members()[rank]);
  if (hello.magic != greeting) {
    give_in(fmt::format("{} speaks another version, or has another byte order", title));
    return false;
  }
  const Hello mine = say_hello();
  const std::span here(mine.port.data(), mine.ports);
  const std::span there(hello.port.data(), std::min<std::size_t>(hello.ports, max_rails));
  std::vector<RailPair> pairs = rank_ < rank ? pair_rails(here, there) : pair_rails(there, here);
  if (pairs.empty()) {
    give_in(fmt::format("no way to {}: {}", title, why_no_way(here, there)));
    return false;
  }
  if (rank_ > rank) {
    for (RailPair& pair : pairs) std::swap(pair.lower, pair.higher);
  }
  hellos_[rank] = hello;
  rails_[rank] = std::move(pairs);
  return true;
}

void Setup::make_pairs() {
  if (trouble_) return;
  for (const u32 rank : wanted_) {
    make_peer(rank);
    if (trouble_) return;
  }
}

void Setup::make_peer(u32 rank) {
  auto peer = std::make_unique<Peer>();
  const Hello& hello = hellos_[rank];
  const auto& pairs = rails_[rank];
  peer->rank = rank;
  peer->index = static_cast<u32>(parts_->peers.size());
  peer->title = name_of(bootstrap_.members()[rank]);
  peer->small_bytes = std::min<u32>(hello.slot_bytes, parts_->send_slots.slot_bytes()) - sizeof(Header);
  peer->pool_address = hello.pool_address;
  peer->pool_slot_bytes = hello.pool_slot_bytes;
  peer->reads_at_once = std::min(hello.reads_answered, reads_at_once(&ibv_device_attr::max_qp_init_rd_atom));
  peer->credits = hello.control_receives;
  peer->first_slot = peer->index * parts_->depths.control_receives;
  for (const RailPair& pair : pairs) {
    Rail rail;
    rail.port = pair.lower;
    rail.device = parts_->devices.ports[pair.lower].device;
    const PortAddress& there = hello.port[pair.higher];
    rail.where = fmt::format("from {} to {}", parts_->devices.ports[pair.lower].name, there.name.data());
    rail.pool_key = there.pool_key;
    const Device& device = parts_->devices.all[rail.device];
    rail.pair = make_pair(device, parts_->depths.data_writes + parts_->depths.data_reads, parts_->depths.data_receives,
                          nullptr);
    if (!rail.pair || !initialise(rail.pair.get(), parts_->devices.ports[rail.port]))
      return give_in(fmt::format("{}: queue pair: {}", device.name, std::strerror(errno)));
    peer->rails.push_back(std::move(rail));
  }
  peer->control_port = peer->rails[0].port;
  peer->control_device = peer->rails[0].device;
  peer->where = peer->rails[0].where;
  const Device& device = parts_->devices.all[peer->control_device];
  peer->control = make_pair(device, parts_->depths.control_sends, parts_->depths.control_receives, &peer->inline_bytes);
  if (!peer->control || !initialise(peer->control.get(), parts_->devices.ports[peer->control_port]))
    return give_in(fmt::format("{}: queue pair: {}", device.name, std::strerror(errno)));
  parts_->peers.push_back(std::move(peer));
}

PairOwner Setup::make_pair(const Device& device, u32 sends, u32 receives, u32* inline_bytes) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = device.completions.get();
  attributes.recv_cq = device.completions.get();
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = sends;
  attributes.cap.max_recv_wr = receives;
  attributes.cap.max_send_sge = inline_bytes != nullptr ? 2 : 1;
  attributes.cap.max_recv_sge = 1;
  // HCAs differ in what they take into a request; nobody tells beforehand.
  for (u32 wanted = inline_bytes != nullptr ? inline_wanted : 0;; wanted /= 2) {
    attributes.cap.max_inline_data = wanted;
    ibv_qp_init_attr granted = attributes;
    PairOwner pair(ibv_create_qp(device.domain.get(), &granted));
    if (pair || wanted == 0) {
      if (pair && inline_bytes != nullptr) *inline_bytes = granted.cap.max_inline_data;
      return pair;
    }
  }
}

bool Setup::initialise(ibv_qp* pair, const Port& port) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = environment_.ib_pkey;
  attributes.port_num = port.number;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  const int error =
      ibv_modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error != 0) errno = error;
  return error == 0;
}

// -- once the others' queue pairs are known
// ----------------------------------------------------------------------------

void Setup::connect(Peer& peer, const PairNumbers& theirs) {
  const Hello& hello = hellos_[peer.rank];
  const auto& pairs = rails_[peer.rank];
  post_receives(peer);
  const auto join = [&](ibv_qp* pair, std::size_t rail, u32 number) {
    const Port& port = parts_->devices.ports[pairs[rail].lower];
    if (!connect_pair(pair, port, hello.port[pairs[rail].higher], number, peer.reads_at_once))
      give_in(fmt::format("queue pair {} of {}: {}", peer.rails[rail].where, peer.title, std::strerror(errno)));
  };
  join(peer.control.get(), 0, theirs.control);
  for (std::size_t rail = 0; rail < peer.rails.size(); rail++)
    join(peer.rails[rail].pair.get(), rail, theirs.data[rail]);
}

bool Setup::connect_pair(ibv_qp* pair, const Port& port, const PortAddress& there, u32 number, u32 reads) {
  PortAddress here;
  here.gid = port.gid.gid;
  here.layer = port.layer;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu_of(std::min(port.mtu, there.mtu));
  attributes.dest_qp_num = number;
  attributes.rq_psn = first_number(number);
  attributes.max_dest_rd_atomic = static_cast<u8>(reads_at_once(&ibv_device_attr::max_qp_rd_atom));
  attributes.min_rnr_timer = 12;
  attributes.ah_attr.dlid = there.lid;
  attributes.ah_attr.sl = environment_.ib_sl;
  attributes.ah_attr.port_num = port.number;
  if (needs_global_route(here, there)) {
    attributes.ah_attr.is_global = 1;
    std::memcpy(attributes.ah_attr.grh.dgid.raw, there.gid.data(), there.gid.size());
    attributes.ah_attr.grh.sgid_index = static_cast<u8>(port.gid.index);
    attributes.ah_attr.grh.hop_limit = 255;
    attributes.ah_attr.grh.traffic_class = environment_.ib_tc;
  }
  errno = ibv_modify_qp(pair, &attributes,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (errno != 0) return false;
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = environment_.ib_timeout;
  attributes.retry_cnt = environment_.ib_retry_cnt;
  attributes.rnr_retry = 7;
  attributes.sq_psn = first_number(pair->qp_num);
  attributes.max_rd_atomic = static_cast<u8>(reads);
  errno = ibv_modify_qp(
      pair, &attributes,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  return errno == 0;
}

void Setup::post_receives(Peer& peer) {
  ibv_recv_wr* bad = nullptr;
  const Slots& slots = parts_->receive_slots;
  for (u32 i = 0; i < parts_->depths.control_receives; i++) {
    ibv_sge part{reinterpret_cast<u64>(slots.at(peer.first_slot + i)), slots.slot_bytes(),
                 slots.local_key(peer.control_device)};
    ibv_recv_wr request{};
    request.wr_id =
        WorkName{.job = Job::control_receive, .peer = static_cast<u16>(peer.index), .item = static_cast<u16>(i)}.pack();
    request.sg_list = &part;
    request.num_sge = 1;
    errno = ibv_post_recv(peer.control.get(), &request, &bad);
    if (errno != 0) return give_in(fmt::format("receives for {}: {}", peer.title, std::strerror(errno)));
  }
  for (std::size_t rail = 0; rail < peer.rails.size(); rail++) {
    ibv_recv_wr request{};
    request.wr_id =
        WorkName{.job = Job::write_receive, .rail = static_cast<u8>(rail), .peer = static_cast<u16>(peer.index)}.pack();
    for (u32 i = 0; i < parts_->depths.data_receives; i++) {
      errno = ibv_post_recv(peer.rails[rail].pair.get(), &request, &bad);
      if (errno != 0) return give_in(fmt::format("receives for {}: {}", peer.title, std::strerror(errno)));
    }
  }
}

void Setup::tell_choice() const {
  if (wanted_.empty()) return;
  const Devices& devices = parts_->devices;
  const auto rank = static_cast<i32>(rank_);
  log::info(rank, Subsystem::init, "NET/IB : Using {}", devices.names());
  for (const Port& port : devices.ports) {
    log::info(rank, Subsystem::net, "NET/IB : {}: {} Gb/s, MTU {}, LID {}, GID index {} ({} {}), P_Key index {}, SL {}",
              port.name, port.gigabits, port.mtu, port.lid, port.gid.index, name_of(port.gid.kind),
              text_of(port.gid.gid), environment_.ib_pkey, environment_.ib_sl);
  }
  for (const std::string& refused : devices.refused) log::info(rank, Subsystem::init, "NET/IB : not used: {}", refused);
  for (const auto& peer : parts_->peers) {
    for (const Rail& rail : peer->rails) log::info(rank, Subsystem::net, "NET/IB : to {}: {}", peer->title, rail.where);
  }
}

}  // namespace softib::coll::verbs
