#include "engine/world.h"

#include <algorithm>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <chrono>

#include "ipc/passed_fds.h"

namespace softib::test {

namespace {

constexpr u64 memory_file_size = 1ULL << 47;
constexpr u32 slots_used = 3;  // 0 is nobody
constexpr u64 arena_used = 64 << 20;

Fd make_memory_file() {
  Fd file(::memfd_create("test-memory", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(file.get(), memory_file_size), 0);
  return file;
}

u64 pid_namespace() {
  struct stat info {};
  ::stat("/proc/self/ns/pid", &info);
  return info.st_ino;
}

}  // namespace

FakeDaemon::FakeDaemon(World& world) : world_(world) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  server_ = Fd(ends[0]);
  client_ = ipc::Client::adopt(Fd(ends[1]));
  thread_ = std::thread([this] { serve(); });
}

FakeDaemon::~FakeDaemon() {
  ::shutdown(server_.get(), SHUT_RDWR);
  thread_.join();
}

void FakeDaemon::serve() {
  alignas(8) char buffer[4096];
  for (;;) {
    ssize_t got = ::recv(server_.get(), buffer, sizeof buffer, 0);
    if (got < static_cast<ssize_t>(sizeof(ipc::RequestHeader))) return;
    auto* header = reinterpret_cast<ipc::RequestHeader*>(buffer);
    const char* body = buffer + sizeof *header;
    ipc::ReplyHeader reply{};
    int fd = -1;
    if (header->op == ipc::Op::raise_event) {
      std::lock_guard guard(mutex_);
      events_.push_back(*reinterpret_cast<const ipc::RaiseEvent::Request*>(body));
    } else if (header->op == ipc::Op::memory_fd) {
      fd = world_.memory_file(reinterpret_cast<const ipc::MemoryFd::Request*>(body)->slot);
    } else if (header->op == ipc::Op::channel_fd) {
      fd = world_.channel_write_end();
    } else {
      reply.error = ENOSYS;
    }
    iovec part{&reply, sizeof reply};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    ipc::FdRoom<1> control{};
    if (fd >= 0) ipc::attach_fd(message, control, fd);
    ::sendmsg(server_.get(), &message, MSG_NOSIGNAL);
  }
}

std::vector<ipc::RaiseEvent::Request> FakeDaemon::events() {
  std::lock_guard guard(mutex_);
  return events_;
}

bool FakeDaemon::saw(ipc::ObjectKind kind, u32 object, hca::AsyncEvent event) {
  for (const auto& e : events())
    if (e.kind == kind && e.object == object && e.event_type == static_cast<u32>(event)) return true;
  return false;
}

Memory::Memory(u32 slot, int file, u64 size, bool shared) : slot_(slot), size_(size), shared_(shared) {
  void* place = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(place, MAP_FAILED);
  if (shared) {
    auto offset = reinterpret_cast<off_t>(place);
    EXPECT_NE(::mmap(place, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, offset), MAP_FAILED);
  }
  data_ = static_cast<u8*>(place);
}

World::World() {
  // A small part of the arena: the thread sanitizer's address space is not large enough for many whole segments.
  constexpr u64 size = offsetof(ipc::Segment, arena) + arena_used;
  void* place = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT_NE(place, MAP_FAILED);
  segment_ = static_cast<ipc::Segment*>(place);
  segment_->header.process_limit = slots_used;
  segment_->header.port_count = slots_used - 1;
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
  channel_[0] = Fd(ends[0]);
  channel_[1] = Fd(ends[1]);
  memory_files_.resize(slots_used);
  daemons_.resize(slots_used);
  clients_.resize(slots_used);
  engines_.resize(slots_used);
  for (u32 slot = 1; slot < slots_used; ++slot) {
    auto& process = segment_->processes[slot];
    process.generation = 1;
    process.local_pid = ::getpid();
    process.pid_namespace = pid_namespace();
    process.agent.bounce_offset = arena_used - slot * ipc::agent_bounce_size;
    process.state = ipc::ProcessState::live;
    auto& port = segment_->ports[slot];
    port.state = ipc::PortState::active;
    port.link_layer = ipc::LinkLayer::infiniband;
    port.number = 1;
    port.lid = static_cast<u16>(slot);
    port.active_mtu = 5;
    segment_->port_of_lid[slot] = slot;
    memory_files_[slot] = make_memory_file();
    daemons_[slot] = std::make_unique<FakeDaemon>(*this);
    clients_[slot] = daemons_[slot]->take_client();
    engines_[slot] = hca::Engine::create(*segment_, *clients_[slot], slot, memory_files_[slot].get());
  }
}

World::~World() {
  // Engines' helper threads never end: what they touch stays, and stays reachable for the leak checker.
  static auto& engines = *new std::vector<std::unique_ptr<hca::Engine>>;
  static auto& clients = *new std::vector<std::unique_ptr<ipc::Client>>;
  for (auto& engine : engines_) engines.push_back(std::move(engine));
  daemons_.clear();
  for (auto& client : clients_) clients.push_back(std::move(client));
}

std::unique_ptr<Memory> World::memory(u32 slot, u64 size, bool shared) {
  return std::make_unique<Memory>(slot, memory_files_[slot].get(), size, shared);
}

u32 World::key(const Memory& memory, u32 access, u64 offset, u64 length) {
  u32 index = next_key_++;
  auto& record = segment_->keys[index];
  record.kind = ipc::KeyKind::region;
  record.access = access;
  record.pd = pd;
  record.owner = memory.slot();
  record.owner_generation = 1;
  record.context = verbs_context;
  record.address = record.iova = memory.address() + offset;
  record.length = std::min(length, memory.size() - offset);
  if (memory.shared()) {
    record.shared_begin = memory.address();
    record.shared_end = memory.address() + memory.size();
  }
  record.key.store(index << 8 | 0x11, std::memory_order_release);
  return index << 8 | 0x11;
}

u32 World::window(u32 kind_type) {
  u32 index = next_key_++;
  auto& record = segment_->keys[index];
  record.kind = kind_type == 1 ? ipc::KeyKind::window1 : ipc::KeyKind::window2;
  record.pd = pd;
  record.key.store(index << 8 | 0x21, std::memory_order_release);
  return index << 8 | 0x21;
}

u64 World::allocate_ring(u32 slots, u32 log2) {
  u64 offset = next_ring_;
  u64 size = abi::ring_head_size + (u64{slots} << log2);
  next_ring_ += (size + ipc::page_size - 1) & ~(ipc::page_size - 1);
  auto* head = reinterpret_cast<rxe_queue_buf*>(segment_->arena + offset);
  head->log2_elem_size = log2;
  head->index_mask = slots - 1;
  return offset;
}

u32 World::cq(u32 slots, bool with_channel) {
  u32 index = next_cq_++;
  auto& cq = segment_->cqs[index];
  cq.ring = allocate_ring(slots, hca::cqe_log2_size);
  cq.mask = slots - 1;
  cq.context = verbs_context;
  cq.user_handle = 1000 + index;
  if (with_channel) cq.channel = 1, cq.channel_generation = 1;
  cq.generation.store(1, std::memory_order_release);
  return index;
}

u32 World::srq(u32 slots) {
  u32 index = next_srq_++;
  auto& srq = segment_->srqs[index];
  srq.ring = allocate_ring(slots, hca::receive_log2_size(4));
  srq.mask = slots - 1;
  srq.max_sge = 4;
  srq.pd = pd;
  srq.context = verbs_context;
  srq.generation.store(1, std::memory_order_release);
  return index;
}

u32 World::qp(u32 slot, QpType type, u32 send_cq, u32 recv_cq, u32 srq_index) {
  u32 qpn = next_qp_++;
  auto& qp = segment_->qps[qpn];
  qp.qpn = qpn;
  qp.type = type;
  qp.link_layer = ipc::LinkLayer::infiniband;
  qp.pd = pd;
  qp.context = verbs_context;
  qp.owner = slot;
  qp.send_cq = send_cq;
  qp.recv_cq = recv_cq;
  qp.srq = srq_index;
  qp.port = slot;
  qp.pkey = 0xffff;
  qp.qkey = 0x1234;
  qp.path_mtu = 4096;
  qp.access = hca::access_remote_write | hca::access_remote_read | hca::access_remote_atomic;
  qp.max_rd_atomic = qp.max_dest_rd_atomic = 16;
  qp.timeout = 8;  // about 1 ms
  qp.retry_count = qp.requester.retries_left = 2;
  qp.rnr_retry = qp.requester.rnr_left = 2;
  qp.min_rnr_timer = 1;
  qp.sq_ring = allocate_ring(sq_slots, sq_log2);
  qp.sq_mask = sq_slots - 1;
  qp.sq_log2_size = sq_log2;
  qp.rq_ring = allocate_ring(rq_slots, rq_log2);
  qp.rq_mask = rq_slots - 1;
  qp.rq_log2_size = rq_log2;
  qp.max_send_sge = 16;
  qp.max_recv_sge = 4;
  qp.max_inline = 256;
  qp.state = type == QpType::ud ? QpState::rts : QpState::init;
  qp.generation.store(1, std::memory_order_release);
  segment_->header.qp_limit = next_qp_;
  return qpn;
}

void World::connect(u32 a, u32 b, QpState state) {
  for (auto [mine, theirs] : {std::pair{a, b}, std::pair{b, a}}) {
    auto& qp = record(mine);
    qp.dest_qpn = theirs;
    qp.av.dlid = segment_->ports[record(theirs).port].lid;
    qp.av.port = record(theirs).port;  // as softibd finds it
    qp.state.store(state, std::memory_order_release);
  }
}

u32 World::ah(u32 from_slot, u32 to_slot, bool global) {
  u32 index = next_ah_++;
  auto& ah = segment_->ahs[index];
  ah.pd = pd;
  ah.context = verbs_context;
  ah.port = from_slot;
  ah.av.dlid = segment_->ports[to_slot].lid;
  ah.av.port = to_slot;
  ah.av.is_global = global;
  ah.generation.store(1, std::memory_order_release);
  return index;
}

u32 World::way(const std::vector<u32>& there, const std::vector<u32>& back, const std::vector<u32>& ports) {
  const u64 offset = next_ring_;
  next_ring_ += ipc::page_size;
  auto* word = reinterpret_cast<u32*>(segment_->arena + offset);
  for (const auto* list : {&ports, &there, &back}) *word++ = static_cast<u32>(list->size());
  for (const auto* list : {&ports, &there, &back}) word = std::copy(list->begin(), list->end(), word);
  return static_cast<u32>(offset / ipc::page_size);
}

std::vector<ib_uverbs_wc> World::poll(u32 index, u32 most) {
  auto& cq = segment_->cqs[index];
  hca::Ring ring(*segment_, cq.ring, cq.mask);
  std::vector<ib_uverbs_wc> found;
  for (u32 at = ring.consumer(); found.size() < most && at != ring.producer(); at = ring.next(at)) {
    found.push_back(*ring.at<ib_uverbs_wc>(at, hca::cqe_log2_size));
    ring.set_consumer(ring.next(at));
  }
  return found;
}

std::vector<ib_uverbs_wc> World::wait_for(u32 cq, u32 count, int timeout_ms) {
  std::vector<ib_uverbs_wc> found;
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (found.size() < count && std::chrono::steady_clock::now() < end) {
    for (auto& wc : poll(cq, count - static_cast<u32>(found.size()))) found.push_back(wc);
    if (found.size() < count) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return found;
}

void post(World& world, u32 qpn, const Send& send) {
  auto& qp = world.record(qpn);
  hca::Ring ring(world.segment(), qp.sq_ring, qp.sq_mask);
  u32 at = ring.producer();
  auto* wqe = ring.at<abi::SendWqe>(at, sq_log2);
  std::memset(static_cast<void*>(wqe), 0, 1U << sq_log2);
  wqe->wr.wr_id = send.wr_id;
  wqe->wr.opcode = static_cast<u32>(send.opcode);
  wqe->wr.send_flags = send.flags;
  wqe->wr.ex.invalidate_rkey = send.immediate;
  if (send.opcode == WrOpcode::compare_swap || send.opcode == WrOpcode::fetch_add) {
    wqe->wr.wr.atomic.remote_addr = send.remote_address;
    wqe->wr.wr.atomic.compare_add = send.compare_add;
    wqe->wr.wr.atomic.swap = send.swap;
    wqe->wr.wr.atomic.rkey = send.rkey;
  } else if (qp.type == QpType::ud) {
    wqe->wr.wr.ud.remote_qpn = send.remote_qpn;
    wqe->wr.wr.ud.remote_qkey = send.qkey;
    wqe->wr.wr.ud.ah_num = send.ah;
  } else {
    wqe->wr.wr.rdma.remote_addr = send.remote_address;
    wqe->wr.wr.rdma.rkey = send.rkey;
  }
  auto* sges = const_cast<rxe_sge*>(wqe->sges());
  for (const Sge& sge : send.sges) {
    sges[wqe->dma.num_sge++] = {sge.address, sge.length, sge.lkey};
    wqe->dma.length += sge.length;
  }
  if (!send.inline_data.empty()) {
    wqe->wr.send_flags |= hca::send_inline;
    std::memcpy(const_cast<u8*>(wqe->inline_data()), send.inline_data.data(), send.inline_data.size());
    wqe->dma.length = static_cast<u32>(send.inline_data.size());
  }
  ring.set_producer(ring.next(at));
}

bool ring_is_full(World& world, u32 qpn) {
  auto& qp = world.record(qpn);
  hca::Ring ring(world.segment(), qp.sq_ring, qp.sq_mask);
  return ring.next(ring.producer()) == ring.consumer();
}

namespace {

void put_receive(hca::Ring ring, u32 log2, u64 wr_id, const std::vector<Sge>& sges) {
  u32 at = ring.producer();
  auto* wqe = ring.at<abi::RecvWqe>(at, log2);
  wqe->wr_id = wr_id;
  wqe->dma = {};
  auto* list = const_cast<rxe_sge*>(wqe->sges());
  for (const Sge& sge : sges) {
    list[wqe->dma.num_sge++] = {sge.address, sge.length, sge.lkey};
    wqe->dma.length += sge.length;
  }
  ring.set_producer(ring.next(at));
}

}  // namespace

void post_receive(World& world, u32 qpn, u64 wr_id, const std::vector<Sge>& sges) {
  auto& qp = world.record(qpn);
  put_receive(hca::Ring(world.segment(), qp.rq_ring, qp.rq_mask), rq_log2, wr_id, sges);
}

void post_srq_receive(World& world, u32 index, u64 wr_id, const std::vector<Sge>& sges) {
  auto& srq = world.segment().srqs[index];
  put_receive(hca::Ring(world.segment(), srq.ring, srq.mask), hca::receive_log2_size(srq.max_sge), wr_id, sges);
}

}  // namespace softib::test
