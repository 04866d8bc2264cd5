// A small fabric inside one process: a segment, two "processes" (slots), a port each, and a stand-in for softibd that
// answers what the engine asks of it. Work is put into the rings as the rxe provider does.
#pragma once

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "abi/rxe.h"
#include "hca/engine.h"
#include "hca/engine/ring.h"
#include "hca/engine/verbs.h"
#include "ipc/client.h"
#include "ipc/protocol.h"
#include "ipc/segment.h"

namespace softib::test {

inline constexpr u32 all_access = hca::access_local_write | hca::access_remote_write | hca::access_remote_read |
                                  hca::access_remote_atomic | hca::access_mw_bind;

using hca::Access;
using hca::WcOpcode;
using hca::WcStatus;
using hca::WrOpcode;
using ipc::QpState;
using ipc::QpType;

inline constexpr u32 sq_log2 = 9;  // room for 16 SGEs or 256 inline bytes
inline constexpr u32 rq_log2 = 7;
inline constexpr u32 sq_slots = 64;
inline constexpr u32 rq_slots = 64;
inline constexpr u32 pd = 5;
inline constexpr u32 verbs_context = 1;

class World;

// What the engine asks of softibd, answered on a thread of its own.
class FakeDaemon {
 public:
  explicit FakeDaemon(World& world);
  ~FakeDaemon();
  std::unique_ptr<ipc::Client> take_client() { return std::move(client_); }
  std::vector<ipc::RaiseEvent::Request> events();
  // True once an event of this type was raised for the object.
  bool saw(ipc::ObjectKind kind, u32 object, hca::AsyncEvent event);

 private:
  void serve();

  World& world_;
  Fd server_;
  std::unique_ptr<ipc::Client> client_;
  std::mutex mutex_;
  std::vector<ipc::RaiseEvent::Request> events_;
  std::thread thread_;
};

// Memory of one slot: pages on its memory file at offset = address, or plain private pages.
class Memory {
 public:
  Memory(u32 slot, int file, u64 size, bool shared);
  ~Memory() { ::munmap(data_, size_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] u8* data() const { return data_; }
  [[nodiscard]] u64 address() const { return reinterpret_cast<u64>(data_); }
  [[nodiscard]] u64 size() const { return size_; }
  [[nodiscard]] u32 slot() const { return slot_; }
  [[nodiscard]] bool shared() const { return shared_; }

 private:
  u32 slot_;
  u8* data_;
  u64 size_;
  bool shared_;
};

class World {
 public:
  World();
  ~World();

  ipc::Segment& segment() { return *segment_; }
  hca::Engine& engine(u32 slot) { return *engines_[slot]; }
  FakeDaemon& daemon(u32 slot) { return *daemons_[slot]; }
  int memory_file(u32 slot) { return memory_files_[slot].get(); }
  int channel_write_end() { return channel_[1].get(); }
  int channel_read_end() { return channel_[0].get(); }

  std::unique_ptr<Memory> memory(u32 slot, u64 size, bool shared = true);
  u32 key(const Memory& memory, u32 access, u64 offset = 0, u64 length = ~0ULL);
  u32 window(u32 kind_type);
  u32 cq(u32 slots = 256, bool with_channel = false);
  u32 srq(u32 slots = 64);
  u32 qp(u32 slot, QpType type, u32 send_cq, u32 recv_cq, u32 srq = 0);
  void connect(u32 a, u32 b, QpState state = QpState::rts);
  u32 ah(u32 from_slot, u32 to_slot, bool global = false);
  // A way over these links of the segment, for the address vector of a QP or AH.
  u32 way(const std::vector<u32>& there, const std::vector<u32>& back, const std::vector<u32>& ports = {});

  ipc::Qp& record(u32 qpn) { return segment_->qps[qpn]; }
  std::vector<ib_uverbs_wc> poll(u32 cq, u32 most = 64);
  // Polls until `count` completions came or two seconds have passed.
  std::vector<ib_uverbs_wc> wait_for(u32 cq, u32 count, int timeout_ms = 20'000);
  // Rings the doorbell of the owner.
  int ring(u32 qpn) { return engine(record(qpn).owner).doorbell(qpn, verbs_context); }

 private:
  u64 allocate_ring(u32 slots, u32 log2);

  ipc::Segment* segment_;
  std::vector<Fd> memory_files_;
  std::vector<std::unique_ptr<FakeDaemon>> daemons_;
  std::vector<std::unique_ptr<ipc::Client>> clients_;
  std::vector<std::unique_ptr<hca::Engine>> engines_;
  Fd channel_[2];
  u64 next_ring_ = ipc::page_size;
  u32 next_key_ = 1;
  u32 next_cq_ = 1;
  u32 next_srq_ = 1;
  u32 next_qp_ = 0x11;
  u32 next_ah_ = 1;
};

// Building work requests.
struct Sge {
  u64 address;
  u32 length;
  u32 lkey;
};

struct Send {
  WrOpcode opcode = WrOpcode::send;
  u64 wr_id = 0;
  u32 flags = hca::send_signaled;
  std::vector<Sge> sges;
  std::string inline_data;
  u64 remote_address = 0;
  u32 rkey = 0;
  u64 compare_add = 0;
  u64 swap = 0;
  u32 immediate = 0;
  u32 remote_qpn = 0, qkey = 0, ah = 0;  // UD
};

void post(World& world, u32 qpn, const Send& send);  // into the ring, no doorbell
bool ring_is_full(World& world, u32 qpn);
void post_receive(World& world, u32 qpn, u64 wr_id, const std::vector<Sge>& sges);
void post_srq_receive(World& world, u32 srq, u64 wr_id, const std::vector<Sge>& sges);

}  // namespace softib::test
