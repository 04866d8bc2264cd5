// One thread's traffic: four RC queue pairs (send and receive, RDMA, atomics, sends into a shared receive queue), each
// with its own checks of what arrives, until the peer is lost or the session ends in order.
#pragma once

#include <array>
#include <atomic>
#include <string>

#include "hca.h"

namespace softib::kill {

enum class Kind : u32 { send = 0, rdma = 1, atomic = 2, srq = 3 };
inline constexpr u32 kinds = 4;
inline constexpr u32 depth = 8;
inline constexpr u32 receives = 2 * depth;
inline constexpr u8 retry_count = 5;
inline constexpr u8 ack_timeout = 11;  // 4.096 us * 2^11 = 8.4 ms

// What a peer must know; sent as it is to the same program on the same machine.
struct WorkerInfo {
  u32 qpn[kinds];
  u64 window_address;
  u64 small_address;
  u32 window_rkey;
  u32 small_rkey;
};

struct SideInfo {
  ibv_gid gid;
  u32 lid;
  u32 workers;
  WorkerInfo worker[max_workers];
};

// How a queue pair fared.
struct QpRecord {
  ibv_qp* qp = nullptr;
  u32 posted = 0;
  u32 done = 0;
  u32 waiting_receives = 0;
  u32 expected_message = 0;  // next message number from the peer
  u64 good = 0;
  u64 first_error_ns = 0;
  ibv_wc_status first_error = IBV_WC_SUCCESS;
  u32 flushed = 0;
};

class Worker {
 public:
  // An odd index sleeps on CQ events, an even one polls.
  Worker(Hca& hca, u32 index);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] WorkerInfo info() const;
  void connect(const SideInfo& peer);

  // The thread. Returns when the peer is lost and all that was posted has completed, or after quit.
  void run();

  // From other threads.
  void stop() { stopping_ = true; }
  void quit() { quitting_ = true; }
  [[nodiscard]] bool drained() const { return drained_; }
  [[nodiscard]] bool ended() const { return ended_; }

  // After run(): what went wrong, or empty; and the account of each queue pair.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  [[nodiscard]] const std::array<QpRecord, kinds>& records() const { return records_; }

 private:
  void create_qp(Kind kind);
  void post_receive(u32 slot);
  void top_up(Kind kind);
  void post(Kind kind);
  void fill_send(ibv_send_wr& request, ibv_sge& sge, u32 number, u32 slots_at) const;
  void fill_rdma(ibv_send_wr& request, ibv_sge& sge, u32 number) const;
  void fill_atomic(ibv_send_wr& request, ibv_sge& sge, u32 number) const;
  void wait();
  [[nodiscard]] int drain_cq();
  void handle(const ibv_wc& wc);
  void handle_error(const ibv_wc& wc, QpRecord& record, bool is_send);
  void handle_receive(const ibv_wc& wc, Kind kind, QpRecord& record);
  void check_message(const u8* data, u32 length, QpRecord& record);
  void check_rdma(u32 number);
  void check_atomic(u32 number);
  void check_written();
  void accuse(const std::string& what);
  [[nodiscard]] bool lost_completely() const;
  [[nodiscard]] QpRecord& record(Kind kind) { return records_[static_cast<u32>(kind)]; }
  [[nodiscard]] Kind kind_of(u32 qpn) const;

  Hca& hca_;
  u32 index_;
  bool events_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  Region buffers_;  // send slots, receive slots, landing place of reads and atomics
  Region window_;   // what the peer reads, writes and adds to
  Region small_;
  WorkerInfo peer_{};
  std::array<QpRecord, kinds> records_;
  std::string fault_;
  u32 unacknowledged_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> quitting_ = false;
  std::atomic<bool> drained_ = false;
  std::atomic<bool> ended_ = false;
};

[[nodiscard]] u64 monotonic_ns();

}  // namespace softib::kill
