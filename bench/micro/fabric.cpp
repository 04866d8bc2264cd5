#include "fabric.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "hca/rules/ring_layout.h"

namespace softib::bench {

namespace {

constexpr u32 slot = 1;
constexpr u32 pd = 1;
constexpr u32 context = 1;
constexpr u32 mtu = 4096;
constexpr u32 sender_key = 1;
constexpr u32 receiver_key = 2;
constexpr off_t memory_file_size = off_t{1} << 47;
constexpr u32 all_access =
    hca::access_local_write | hca::access_remote_write | hca::access_remote_read | hca::access_remote_atomic;

constexpr u32 key_of(u32 index) { return index << 8 | 0x5a; }

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::abort();
}

// Somebody to connect to. Nothing that is measured here calls the daemon, so nobody needs to answer.
Fd listen_in(const std::string& folder) {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s/daemon.sock", folder.c_str());
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) < 0) give_up("bind");
  if (::listen(socket.get(), 1) < 0) give_up("listen");
  return socket;
}

}  // namespace

Fabric::Fabric() {
  void* place =
      ::mmap(nullptr, ipc::segment_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) give_up("mmap of the segment");
  segment_ = static_cast<ipc::Segment*>(place);
  segment_->processes[slot].state = ipc::ProcessState::live;
  segment_->processes[slot].generation = 1;
  segment_->header.process_limit = slot + 1;
  segment_->header.qp_limit = receiver + 1;
  make_ports();
  make_buffers();
  for (u32 cq : {1U, 2U}) make_cq(cq);
  make_qp(sender, receiver, 1, 1);
  make_qp(receiver, sender, 2, 2);

  char folder[] = "/tmp/softib-bench-XXXXXX";
  if (!::mkdtemp(folder)) give_up("mkdtemp");
  listener_ = listen_in(folder);
  auto client = ipc::Client::connect(folder);
  ::unlink((std::string(folder) + "/daemon.sock").c_str());
  ::rmdir(folder);
  if (!client) give_up("connect");
  client_ = std::move(*client);
  engine_ = hca::Engine::create(*segment_, *client_, slot, memory_.get());
}

Fabric::~Fabric() {
  engine_.reset();
  ::munmap(buffers_, 2 * largest_message);
  ::munmap(segment_, ipc::segment_size);
}

void Fabric::make_ports() {
  for (u32 index : {1U, 2U}) {
    ipc::Port& port = segment_->ports[index];
    port.state = ipc::PortState::active;
    port.link_layer = ipc::LinkLayer::infiniband;
    port.number = 1;
    port.lid = static_cast<u16>(index);
    port.pkeys[0] = 0xffff;
    port.pkey_count = 1;
    segment_->port_of_lid[index] = index;
  }
}

// As ProcessMemory places it: the page at address A lies in the file at offset A.
void Fabric::make_buffers() {
  memory_ = Fd(::memfd_create("bench", MFD_CLOEXEC));
  if (!memory_ || ::ftruncate(memory_.get(), memory_file_size) < 0) give_up("memory file");
  u64 size = 2 * largest_message;
  void* place = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) give_up("mmap");
  u64 address = reinterpret_cast<u64>(place);
  place =
      ::mmap(place, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory_.get(), static_cast<off_t>(address));
  if (place == MAP_FAILED) give_up("mmap of the memory file");
  buffers_ = static_cast<u8*>(place);
  std::memset(buffers_, 0x5a, size);
  make_key(sender_key, address);
  make_key(receiver_key, address + largest_message);
}

void Fabric::make_key(u32 index, u64 address) {
  ipc::Key& key = segment_->keys[index];
  key.kind = ipc::KeyKind::region;
  key.access = all_access;
  key.pd = pd;
  key.owner = slot;
  key.owner_generation = 1;
  key.context = context;
  key.iova = key.address = key.shared_begin = address;
  key.length = largest_message;
  key.shared_end = address + largest_message;
  key.key = key_of(index);
}

u64 Fabric::take_arena(u64 bytes) {
  u64 offset = arena_used_;
  arena_used_ += (bytes + ipc::page_size - 1) / ipc::page_size * ipc::page_size;
  return offset;
}

void Fabric::make_cq(u32 index) {
  hca::RingLayout layout = hca::cq_layout(2 * queue_depth);
  ipc::Cq& cq = segment_->cqs[index];
  cq.mask = layout.mask();
  cq.ring = take_arena(layout.bytes());
  cq.context = context;
  cq.owner = slot;
  cq.generation = 1;
}

void Fabric::make_qp(u32 qpn, u32 peer, u32 port, u32 cq) {
  auto layout = hca::plan_qp({queue_depth, queue_depth, 1, 1, 64}, false);
  if (!layout) give_up("plan_qp");
  ipc::Qp& qp = segment_->qps[qpn];
  qp.type = ipc::QpType::rc;
  qp.link_layer = ipc::LinkLayer::infiniband;
  qp.timeout = 14;
  qp.retry_count = 7;
  qp.rnr_retry = 7;
  qp.max_rd_atomic = qp.max_dest_rd_atomic = 16;
  qp.pkey = 0xffff;
  qp.qpn = qpn;
  qp.pd = pd;
  qp.context = context;
  qp.owner = slot;
  qp.send_cq = qp.recv_cq = cq;
  qp.port = port;
  qp.dest_qpn = peer;
  qp.access = all_access;
  qp.path_mtu = mtu;
  qp.sq_mask = layout->send.mask();
  qp.rq_mask = layout->receive.mask();
  qp.sq_log2_size = layout->send.log2_size;
  qp.rq_log2_size = layout->receive.log2_size;
  qp.sq_ring = take_arena(layout->send.bytes());
  qp.rq_ring = take_arena(layout->receive.bytes());
  qp.max_send_sge = layout->granted.max_send_sge;
  qp.max_recv_sge = layout->granted.max_recv_sge;
  qp.max_inline = layout->granted.max_inline;
  qp.av.port_num = 1;
  qp.av.dlid = static_cast<u16>(3 - port);
  qp.av.port = 3 - port;
  qp.state = ipc::QpState::rts;
  qp.generation = 1;
}

void Fabric::post(hca::WrOpcode opcode, u64 length, u32 flags) {
  ipc::Qp& qp = segment_->qps[sender];
  hca::Ring ring = ring_of(qp.sq_ring, qp.sq_mask);
  u32 at = ring.producer();
  auto* wqe = ring.at<abi::SendWqe>(at, qp.sq_log2_size);
  std::memset(wqe, 0, sizeof *wqe);
  wqe->wr.wr_id = at;
  wqe->wr.opcode = static_cast<u32>(opcode);
  wqe->wr.send_flags = flags;
  bool atomic = opcode == hca::WrOpcode::compare_swap || opcode == hca::WrOpcode::fetch_add;
  wqe->wr.wr.rdma.remote_addr = reinterpret_cast<u64>(buffers_ + largest_message);
  (atomic ? wqe->wr.wr.atomic.rkey : wqe->wr.wr.rdma.rkey) = key_of(receiver_key);
  wqe->dma.length = wqe->dma.resid = static_cast<u32>(length);
  if (flags & hca::send_inline) {
    std::memcpy(wqe + 1, buffers_, length);
  } else {
    wqe->dma.num_sge = 1;
    rxe_sge sge{reinterpret_cast<u64>(buffers_), static_cast<u32>(length), key_of(sender_key)};
    std::memcpy(wqe + 1, &sge, sizeof sge);
  }
  ring.set_producer(ring.next(at));
}

void Fabric::post_receive(u64 length) {
  ipc::Qp& qp = segment_->qps[receiver];
  hca::Ring ring = ring_of(qp.rq_ring, qp.rq_mask);
  u32 at = ring.producer();
  auto* wqe = ring.at<abi::RecvWqe>(at, qp.rq_log2_size);
  wqe->wr_id = at;
  wqe->dma = {static_cast<u32>(length), static_cast<u32>(length), 0, 1, 0, 0};
  rxe_sge sge{reinterpret_cast<u64>(buffers_ + largest_message), static_cast<u32>(length), key_of(receiver_key)};
  std::memcpy(wqe + 1, &sge, sizeof sge);
  ring.set_producer(ring.next(at));
}

void Fabric::ring() {
  errno = engine_->doorbell(sender, context);
  if (errno) give_up("doorbell");
}

void Fabric::take_from(u32 cq, u32 expected) {
  ipc::Cq& record = segment_->cqs[cq];
  hca::Ring ring = ring_of(record.ring, record.mask);
  u32 end = ring.producer();
  u32 count = 0;
  for (u32 at = ring.consumer(); at != end; at = ring.next(at), ++count) {
    if (ring.at<ib_uverbs_wc>(at, hca::cqe_log2_size)->status != 0) give_up("a completion in error");
  }
  if (count != expected) give_up("completions missing");
  ring.set_consumer(end);
}

void Fabric::take_completions(u32 sent, u32 received) {
  take_from(1, sent);
  take_from(2, received);
}

}  // namespace softib::bench
