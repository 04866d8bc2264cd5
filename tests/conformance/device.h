// One opened device and everything a test made on it, named by small numbers, so that a test can drive a device in its
// own process and one in another process in the same words (end.h). Nothing here knows what a right answer is.
#pragma once

#include <infiniband/verbs.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "numbers.h"
#include "wire.h"

namespace conformance {

using Id = u32;  // 0: none

// The id that a verbs object carries in its private context pointer.
inline void* as_context(Id id) { return reinterpret_cast<void*>(static_cast<uintptr_t>(id)); }
inline Id as_id(void* context) { return static_cast<Id>(reinterpret_cast<uintptr_t>(context)); }
using Bytes = std::vector<u8>;

struct Info {
  ibv_port_attr port;
  ibv_device_attr device;
  ibv_gid gid;
  u8 port_num;
  u8 gid_index;
  u8 ethernet;
  u16 pkeys[128];
  u16 pkey_count;
  i32 pid;
};

struct Made {
  Id id;
  int error;  // errno where id is 0
};

struct MadeMr {
  Id id;
  int error;
  u32 lkey, rkey;
};

struct MadeCq {
  Id id;
  int error;
  i32 entries;
};

struct MadeMw {
  Id id;
  int error;
  u32 rkey;
};

struct SrqSpec {
  Id pd;
  u32 max_wr, max_sge, limit;
};

struct MadeSrq {
  Id id;
  int error;
  u32 max_wr, max_sge;
};

struct QpSpec {
  ibv_qp_type type = IBV_QPT_RC;
  Id pd = 0, send_cq = 0, recv_cq = 0, srq = 0;
  ibv_qp_cap cap{};
  int sq_sig_all = 0;
  u64 send_ops = 0;  // IBV_QP_EX_WITH_*: not 0 gives the ibv_wr_* interface
};

struct MadeQp {
  Id id;
  int error;
  u32 qpn;
  ibv_qp_cap cap;
};

struct MwBind {
  Id mw = 0, mr = 0;
  u64 address = 0, length = 0;
  u32 access = 0;
  u32 new_rkey = 0;  // type 2
};

struct Send {
  u64 wr_id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  u32 flags = IBV_SEND_SIGNALED;
  std::vector<ibv_sge> sges;
  u32 imm = 0;  // network order as given; also the rkey to invalidate
  u64 remote_addr = 0;
  u32 rkey = 0;
  u64 compare_add = 0, swap = 0;
  Id ah = 0;
  u32 remote_qpn = 0, remote_qkey = 0;
  MwBind bind;

  auto fields() {
    return std::tie(wr_id, opcode, flags, sges, imm, remote_addr, rkey, compare_add, swap, ah, remote_qpn, remote_qkey,
                    bind);
  }
};

struct Recv {
  u64 wr_id = 0;
  std::vector<ibv_sge> sges;
  auto fields() { return std::tie(wr_id, sges); }
};

struct Posted {
  int error = 0;
  i32 bad = -1;  // index of bad_wr in the list; -1: none was named
};

struct Event {
  u32 type = 0;
  u8 none = 1;  // 1: nothing came in time
  Id object = 0;
  i32 port = 0;
};

struct Hammer {
  Id qp, cq;
  u64 local;
  u32 lkey;
  u64 remote;
  u32 rkey;
  u32 count;
  u32 compare_swap;  // 1: increments by CAS loops instead of fetch-and-add
};

struct HammerResult {
  i32 error;
  u32 status;
  u64 done;
  u64 retries;
  u64 disorder;  // times that a fetched value was not above the one before
};

// A completion read through the ibv_cq_ex interface.
struct ExWc {
  u64 wr_id;
  u32 status, opcode, vendor_err, flags;
  u32 byte_len, imm, qp_num, src_qp, slid;
  u8 sl, path_bits;
};

struct Joined {
  int error;
  u16 lid;
};

class Device {
 public:
  Device(const std::string& name, int port, int gid_index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Info info();
  int reset();  // destroys all that was made; 0, or the first error

  Made alloc_pd();
  int dealloc_pd(Id pd);

  u64 alloc_memory(u64 size);
  int free_memory(u64 address);
  int write_bytes(u64 address, Bytes bytes);
  Bytes read_bytes(u64 address, u64 length);
  int fill(u64 address, u64 length, u32 seed);      // a pattern that depends on seed and place
  i64 mismatch(u64 address, u64 length, u32 seed);  // first place that differs from the pattern; -1: none
  int set(u64 address, u64 length, u8 value);
  i64 differs(u64 address, u64 length, u8 value);  // first byte that isn't `value`; -1: none

  MadeMr reg_mr(Id pd, u64 address, u64 length, u32 access);
  MadeMr reg_mr_iova(Id pd, u64 address, u64 length, u64 iova, u32 access);
  int dereg_mr(Id mr);

  Made create_channel();
  int destroy_channel(Id channel);
  MadeCq create_cq(i32 entries, Id channel);
  MadeCq create_cq_ex(i32 entries, Id channel, u64 wc_flags);
  int resize_cq(Id cq, i32 entries);
  int destroy_cq(Id cq);
  std::vector<ibv_wc> poll(Id cq, u32 count, u32 timeout_ms);
  std::vector<ExWc> poll_ex(Id cq, u32 count, u32 timeout_ms);
  int arm(Id cq, int solicited_only);
  Id wait_cq_event(Id channel, u32 timeout_ms);  // 0: none came
  int ack_cq_events(Id cq, u32 count);

  MadeSrq create_srq(SrqSpec spec);
  int modify_srq(Id srq, ibv_srq_attr attr, i32 mask);
  ibv_srq_attr query_srq(Id srq);
  int destroy_srq(Id srq);

  MadeQp create_qp(QpSpec spec);
  int modify_qp(Id qp, ibv_qp_attr attr, i32 mask);
  ibv_qp_attr query_qp(Id qp);
  int destroy_qp(Id qp);

  Made create_ah(Id pd, ibv_ah_attr attr);
  int destroy_ah(Id ah);

  Posted post_send(Id qp, std::vector<Send> list);
  Posted post_builder(Id qp, std::vector<Send> list);  // by ibv_wr_start ... ibv_wr_complete
  Posted post_recv(Id qp, std::vector<Recv> list);
  Posted post_srq(Id srq, std::vector<Recv> list);

  Event wait_event(u32 timeout_ms);  // takes and acknowledges one asynchronous event

  MadeMw alloc_mw(Id pd, u32 type);
  int dealloc_mw(Id mw);
  int set_mw_rkey(Id mw, u32 rkey);               // after a bind of type 2 the application keeps ibv_mw.rkey up to date
  MadeMw bind_mw(Id qp, MwBind bind, u64 wr_id);  // ibv_bind_mw (type 1); gives the new rkey

  int attach(Id qp, ibv_gid gid, u16 lid);
  int detach(Id qp, ibv_gid gid, u16 lid);
  // The port becomes a member at the subnet administration, until reset; gives the group's LID. InfiniBand only.
  Joined join_group(ibv_gid gid, u32 qkey);

  int hammer(std::vector<Hammer> jobs);  // starts a thread for each
  std::vector<HammerResult> hammer_join();

  // Process-wide, so only for agents that a test started for the purpose.
  int restrict_memlock(u64 bytes);  // also gives up root
  int fork_initialized();           // ibv_is_fork_initialized
  int fork_start();                 // forks a child that serves the next four
  Bytes fork_peek(u64 address, u64 length);
  int fork_poke(u64 address, u8 value);
  int fork_exec();  // the child calls exec
  int fork_end();

  // For tests of one device that need the real objects.
  ibv_context* context() const { return context_; }
  ibv_pd* pd(Id id) const { return at(pds_, id); }
  ibv_mr* mr(Id id) const { return at(mrs_, id); }
  ibv_cq* cq(Id id) const { return at(cqs_, id); }
  ibv_qp* qp(Id id) const { return at(qps_, id); }
  ibv_srq* srq(Id id) const { return at(srqs_, id); }
  ibv_ah* ah(Id id) const { return at(ahs_, id); }
  ibv_mw* mw(Id id) const { return at(mws_, id); }
  ibv_comp_channel* channel(Id id) const { return at(channels_, id); }

 private:
  template <typename T>
  using Table = std::map<Id, T*>;

  template <typename T>
  static T* at(const Table<T>& table, Id id) {
    const auto found = table.find(id);
    return found == table.end() ? nullptr : found->second;
  }
  template <typename T>
  Id add(Table<T>& table, T* object);
  template <typename T, typename Destroy>
  int remove(Table<T>& table, Id id, Destroy destroy);
  template <typename T, typename Destroy>
  void clear(Table<T>& table, Destroy destroy, int* first_error);

  MadeMr keep_mr(ibv_mr* mr);
  ibv_send_wr to_wr(const Send& send, std::vector<ibv_sge>& sges) const;
  void build(ibv_qp_ex* qp, const Send& send);
  void build_opcode(ibv_qp_ex* qp, const Send& send);
  void drain_events();

  ibv_context* context_ = nullptr;
  u8 port_;
  u8 gid_index_ = 0;
  Id next_ = 1;
  Table<ibv_pd> pds_;
  Table<ibv_mr> mrs_;
  Table<ibv_mw> mws_;
  Table<ibv_cq> cqs_;
  Table<ibv_qp> qps_;
  Table<ibv_srq> srqs_;
  Table<ibv_ah> ahs_;
  Table<ibv_comp_channel> channels_;
  std::map<u64, u64> memory_;                         // address -> size
  std::vector<std::tuple<Id, ibv_gid, u16>> groups_;  // attachments, to be undone by reset
  std::vector<ibv_gid> joined_;                       // memberships, likewise
  std::map<Id, u32> unacked_;                         // completion events taken from a CQ
  std::vector<std::thread> hammers_;
  std::vector<HammerResult> hammer_results_;
  int fork_request_ = -1, fork_reply_ = -1, fork_pid_ = -1;
};

}  // namespace conformance
