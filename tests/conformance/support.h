// What most tests need: the two ends, a connected pair of QPs with memory, and short names for usual work requests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "end.h"
#include "options.h"

namespace conformance {

inline constexpr u32 all_access =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr u32 default_qkey = 0x11111111;
inline constexpr u32 soon = 5000;  // ms within which anything ordinary completes; patience() scales it
inline constexpr u32 quiet = 150;  // ms of silence that show that nothing comes

// An upper bound in ms, stretched on emulated machines.
u32 patience(u32 ms = soon);
// A time of silence in ms, likewise.
u32 silence(u32 ms = quiet);

// Ends that live as long as the process.
End& end_a();
End& end_b();
void forget_end_b();  // after a test has killed it

// Throws (which GoogleTest reports as a failure) with `what` and the errno's text.
void must(int error, const std::string& what);

struct Buffer {
  End* end = nullptr;
  u64 address = 0, size = 0;
  Id mr = 0;
  u32 lkey = 0, rkey = 0;

  ibv_sge sge(u64 offset, u64 length) const;
  ibv_sge sge() const { return sge(0, size); }
};

Buffer make_buffer(End& end, Id pd, u64 size, u32 access = all_access);

struct Spec {
  ibv_qp_type type = IBV_QPT_RC;
  ibv_qp_cap cap{16, 16, 4, 4, 0};
  i32 cq_entries = 128;
  bool one_cq = false;  // sends and receives complete on the same CQ
  bool srq = false;
  bool channel = false;  // completion channel on both CQs
  u64 buffer = 65536;
  u32 buffer_access = all_access;
  u32 qp_access = all_access;
  u8 timeout = 18, retry = 7, rnr_retry = 7;
  u8 min_rnr_timer = 12;                  // 0.64 ms
  ibv_mtu mtu = static_cast<ibv_mtu>(0);  // 0: the smaller of the two ports' active MTUs
  int sq_sig_all = 0;
  u64 send_ops = 0;
  u32 qkey = default_qkey;
  bool connect = true;
  bool global = false;  // a GRH also on InfiniBand
  u16 pkey_index_a = 0, pkey_index_b = 0;
};

// One end's objects.
struct Node {
  End* end = nullptr;
  Info info{};
  Id pd = 0, channel = 0, send_cq = 0, recv_cq = 0, srq = 0, qp = 0;
  Id ah = 0;  // UD: to the other end
  u32 qpn = 0;
  ibv_qp_cap cap{};
  Buffer buffer;

  Posted post(std::vector<Send> list) const { return end->post_send(qp, std::move(list)); }
  Posted post(Send send) const { return post(std::vector<Send>{std::move(send)}); }
  Posted receive(std::vector<Recv> list) const;  // into the SRQ where there is one
  Posted receive(u64 wr_id, u64 offset, u64 length) const { return receive({{wr_id, {buffer.sge(offset, length)}}}); }
  std::vector<ibv_wc> sent(u32 count = 1, u32 timeout_ms = patience()) const {
    return end->poll(send_cq, count, timeout_ms);
  }
  std::vector<ibv_wc> received(u32 count = 1, u32 timeout_ms = patience()) const {
    return end->poll(recv_cq, count, timeout_ms);
  }
  ibv_qp_state state() const { return end->query_qp(qp).qp_state; }
  // Waits until the QP is in `wanted`: a peer's error reaches it some time after the completion.
  ibv_qp_state state_becomes(ibv_qp_state wanted) const;
};

struct Pair {
  Pair(End& end_of_a, End& end_of_b, const Spec& wanted = {});
  void connect();

  Node a, b;
  Spec spec;

 private:
  void make(Node& node, End& end);
};

// Attributes and masks of the three usual steps.
struct Step {
  ibv_qp_attr attr{};
  i32 mask = 0;
};
Step to_init(const Spec& spec, const Info& info, u16 pkey_index = 0);
Step to_rtr(const Spec& spec, const Info& from, const Info& to, u32 dest_qpn);
Step to_rts(const Spec& spec);
ibv_ah_attr address_to(const Info& from, const Info& to, bool global);
inline constexpr u32 first_psn = 0xfffffa;  // wraps within the first messages

int modify(const Node& node, const Step& step);
int modify_state(const Node& node, ibv_qp_state state);

// Usual work requests.
Send send_wr(u64 wr_id, std::vector<ibv_sge> sges);
Send rdma_wr(u64 wr_id, ibv_wr_opcode opcode, std::vector<ibv_sge> sges, u64 remote_addr, u32 rkey);
Send atomic_wr(u64 wr_id, ibv_wr_opcode opcode, ibv_sge sge, u64 remote_addr, u32 rkey, u64 compare_add, u64 swap = 0);
Send ud_wr(u64 wr_id, std::vector<ibv_sge> sges, const Node& from, const Node& to, u32 qkey = default_qkey);

std::string name_of(ibv_wr_opcode opcode);

// EXPECTs that exactly one completion with this id and status came.
void expect_wc(const std::vector<ibv_wc>& wcs, u64 wr_id, ibv_wc_status status);
// Status of the only completion; IBV_WC_GENERAL_ERR with a failure when there is none.
ibv_wc_status status_of(const std::vector<ibv_wc>& wcs);

// One message each way through RC QPs: shows that a pair still works.
void expect_traffic(const Pair& pair);

// The next event of this kind within `timeout_ms`; others are passed over.
Event wait_for(End& end, ibv_event_type type, u32 timeout_ms = patience());

class Stopwatch {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Conformance : public ::testing::Test {
 protected:
  void TearDown() override;
  End& a() { return end_a(); }
  End& b() { return end_b(); }
  // A second process at our own end, for what changes a process (limits, fork) or kills it.
  static std::unique_ptr<End> own_agent(const std::string& extra = "") { return End::remote(own_agent_command(extra)); }
};

// Collects differences of a table-driven test, so that a table of a thousand rows fails with one readable message.
class Differences {
 public:
  void add(const std::string& text);
  void checked() { ++checked_; }
  ~Differences();

 private:
  std::vector<std::string> texts_;
  u32 checked_ = 0;
};

}  // namespace conformance
