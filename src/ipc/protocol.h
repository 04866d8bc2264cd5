// What a process asks of softibd: one SOCK_SEQPACKET message each way per call, fixed-size records, descriptors as
// SCM_RIGHTS. A process has one connection (ipc/client.h); calls on it are serialised by a mutex in the client.
//
// Object ids are indices into the segment's tables, and are at the same time the uverbs handles: qp id = QPN,
// key id = rkey >> 8, cq/srq/ah ids = table indices. PDs, contexts, channels have no table: their ids count up.
// softibd checks that an object belongs to the context named in the request and answers EINVAL if not (as the kernel's
// uobject look-up does), EBUSY while it is in use.
#pragma once

#include "ipc/places.h"
#include "ipc/port_counters.h"
#include "ipc/segment.h"

namespace softib::ipc {

enum class Op : u32 {
  attach = 1,
  open_context,
  import_context,
  alloc_async_fd,
  alloc_pd,
  dealloc_pd,
  reg_mr,
  rereg_mr,
  dereg_mr,
  alloc_mw,
  dealloc_mw,
  create_channel,
  create_cq,
  resize_cq,
  destroy_cq,
  create_srq,
  modify_srq,
  query_srq,
  destroy_srq,
  create_qp,
  modify_qp,
  query_qp,
  destroy_qp,
  create_ah,
  destroy_ah,
  attach_multicast,
  detach_multicast,
  free_ring,
  channel_fd,
  memory_fd,
  raise_event,
  status,
  list_handles,
  find_route,
  report_violation,
  open_umad,
  umad_register,
  umad_unregister,
  fault,
  prepare_host,
  read_counter,
  open_rdma_cm,
  rdma_cm_command,
  set_addresses,
  machine_socket,
};

inline constexpr u32 max_message = 32 * 1024;
inline constexpr u32 max_fds = 2;

struct RequestHeader {
  Op op;
  u32 context;  // 0 where the call needs none
};

struct ReplyHeader {
  i32 error;  // 0 or an errno
  u32 reserved;
};

struct Empty {};

// First call on a connection. The process's memory file comes with it as a descriptor (hca/memory.h); the segment's
// memfd comes back.
struct Attach {
  static constexpr Op op = Op::attach;
  struct Request {
    u32 version;  // interface_version
    u32 size_of_qp;
    u32 is_tool;  // 1: no process slot wanted (softib status)
    i32 local_pid;
    u64 pid_namespace;
    char host[64];
    char program[64];  // for softib status
  };
  struct Reply {
    u32 slot;
    u32 generation;
    u64 segment_size;
    u32 host;  // index
    u32 reserved;
    u64 memlock;  // RLIMIT_MEMLOCK of softibd in bytes: what this machine gives everybody (hca/memory/lock_limit.h)
  };
};

// Gives two descriptors: the command fd (one end of a socket pair; softibd frees the context when its last copy is
// closed) and nothing else. `inode` is the command fd's st_ino, by which a copy in another process is recognised.
struct OpenContext {
  static constexpr Op op = Op::open_context;
  struct Request {
    u32 device;
    u32 reserved;
  };
  struct Reply {
    u32 context;
    u32 reserved;
    u64 inode;
  };
};

// What a process does with a command fd that it got from elsewhere (SCM_RIGHTS, inheritance). EBADF if unknown.
struct ImportContext {
  static constexpr Op op = Op::import_context;
  struct Request {
    u64 inode;
  };
  struct Reply {
    u32 context;
    u32 device;
  };
};

// Records on the async and completion pipes. The shim's read() turns them into what the kernel gives.
enum class ObjectKind : u32 { none = 0, port, qp, cq, srq, pd, mr, mw, ah, device, channel };

struct AsyncRecord {
  u64 element;     // user_handle of the object, or the port number
  u32 event_type;  // enum ibv_event_type
  ObjectKind kind;
  u32 object;      // table index
  u32 generation;  // a record whose object has gone is skipped by the reader
};

struct CompletionRecord {
  u64 user_handle;
  u32 cq;
  u32 generation;
};

// One descriptor: the read end of the context's async pipe.
struct AllocAsyncFd {
  static constexpr Op op = Op::alloc_async_fd;
  using Request = Empty;
  using Reply = Empty;
};

struct AllocPd {
  static constexpr Op op = Op::alloc_pd;
  using Request = Empty;
  struct Reply {
    u32 pd;
  };
};

struct DeallocPd {
  static constexpr Op op = Op::dealloc_pd;
  struct Request {
    u32 pd;
  };
  using Reply = Empty;
};

struct RegMr {
  static constexpr Op op = Op::reg_mr;
  struct Request {
    u32 pd;
    u32 access;
    u64 iova;
    u64 address;
    u64 length;
    u64 shared_begin;  // as in Key
    u64 shared_end;
  };
  struct Reply {
    u32 mr;
    u32 lkey;
    u32 rkey;
    u32 reserved;
  };
};

// `flags` as IB_MR_REREG_TRANS/PD/ACCESS; unchanged parts are ignored. The key changes.
struct ReregMr {
  static constexpr Op op = Op::rereg_mr;
  struct Request {
    u32 mr;
    u32 flags;
    RegMr::Request to;
  };
  struct Reply {
    u32 lkey;
    u32 rkey;
  };
};

// On return the key is invalid; the caller then waits for quiescence before it gives the memory back.
struct DeregMr {
  static constexpr Op op = Op::dereg_mr;
  struct Request {
    u32 mr;
  };
  using Reply = Empty;
};

struct AllocMw {
  static constexpr Op op = Op::alloc_mw;
  struct Request {
    u32 pd;
    u32 type;
  };  // enum ibv_mw_type
  struct Reply {
    u32 mw;
    u32 rkey;
  };
};

struct DeallocMw {
  static constexpr Op op = Op::dealloc_mw;
  struct Request {
    u32 mw;
  };
  using Reply = Empty;
};

// One descriptor: the read end of a completion channel's pipe. softibd frees the channel when the context goes or
// when the pipe's last reader is gone and no CQ uses it.
struct CreateChannel {
  static constexpr Op op = Op::create_channel;
  using Request = Empty;
  struct Reply {
    u32 channel;
    u32 generation;
  };
};

struct CreateCq {
  static constexpr Op op = Op::create_cq;
  struct Request {
    u32 entries;
    u32 channel;  // 0 = none
    u32 comp_vector;
    u32 flags;  // IB_UVERBS_CQ_FLAGS_*
    u64 user_handle;
  };
  struct Reply {
    u32 cq;
    u32 entries;
    u64 ring;
    u32 ring_size;
    u32 reserved;
  };
};

// Makes a second ring; the owner moves the entries over under the CQ's lock (hca/resize.h), then frees the old one.
// A refused move (more entries waiting than fit: EINVAL) frees the new one.
struct ResizeCq {
  static constexpr Op op = Op::resize_cq;
  struct Request {
    u32 cq;
    u32 entries;
  };
  struct Reply {
    u32 entries;
    u32 ring_size;
    u64 ring;
  };
};

struct FreeRing {
  static constexpr Op op = Op::free_ring;
  struct Request {
    u64 ring;
  };
  using Reply = Empty;
};

struct DestroyCq {
  static constexpr Op op = Op::destroy_cq;
  struct Request {
    u32 cq;
  };
  struct Reply {
    u32 comp_events_reported;
    u32 async_events_reported;
  };
};

struct CreateSrq {
  static constexpr Op op = Op::create_srq;
  struct Request {
    u32 pd;
    u32 max_wr;
    u32 max_sge;
    u32 limit;
    u64 user_handle;
  };
  struct Reply {
    u32 srq;
    u32 max_wr;
    u32 max_sge;
    u32 ring_size;
    u64 ring;
  };
};

// mask: IBV_SRQ_MAX_WR gives a second ring, moved as with ResizeCq; IBV_SRQ_LIMIT arms.
struct ModifySrq {
  static constexpr Op op = Op::modify_srq;
  struct Request {
    u32 srq;
    u32 mask;
    u32 max_wr;
    u32 limit;
  };
  struct Reply {
    u32 max_wr;
    u32 ring_size;
    u64 ring;
  };
};

struct QuerySrq {
  static constexpr Op op = Op::query_srq;
  struct Request {
    u32 srq;
  };
  struct Reply {
    u32 max_wr;
    u32 max_sge;
    u32 limit;
  };
};

struct DestroySrq {
  static constexpr Op op = Op::destroy_srq;
  struct Request {
    u32 srq;
  };
  struct Reply {
    u32 async_events_reported;
  };
};

struct QpCaps {
  u32 max_send_wr;
  u32 max_recv_wr;
  u32 max_send_sge;
  u32 max_recv_sge;
  u32 max_inline;
};

struct CreateQp {
  static constexpr Op op = Op::create_qp;
  struct Request {
    u32 pd;
    u32 send_cq;
    u32 recv_cq;
    u32 srq;
    QpType type;
    u8 sq_sig_all;
    u16 reserved;
    u32 create_flags;
    QpCaps caps;
    u32 reserved2;
    u64 user_handle;
  };
  struct Reply {
    u32 qpn;
    QpCaps caps;
    u32 sq_ring_size;
    u32 rq_ring_size;  // 0 with an SRQ
    u64 sq_ring;
    u64 rq_ring;
  };
};

// Values as in struct ib_uverbs_qp_attr; only those named by `mask` (IBV_QP_*) count.
struct QpAttributes {
  u32 mask;
  u32 qp_state;
  u32 cur_qp_state;
  u32 path_mtu;  // enum ibv_mtu
  u32 path_mig_state;
  u32 qkey;
  u32 rq_psn;
  u32 sq_psn;
  u32 dest_qp_num;
  u32 access_flags;
  QpCaps caps;
  AddressVector av;  // port, group, route_epoch: softibd's own
  AddressVector alt_av;
  u16 pkey_index;
  u16 alt_pkey_index;
  u8 en_sqd_async_notify;
  u8 sq_draining;
  u8 max_rd_atomic;
  u8 max_dest_rd_atomic;
  u8 min_rnr_timer;
  u8 port_num;
  u8 timeout;
  u8 retry_count;
  u8 rnr_retry;
  u8 alt_port_num;
  u8 alt_timeout;
  u8 reserved;
  u32 rate_limit;
};

struct ModifyQp {
  static constexpr Op op = Op::modify_qp;
  struct Request {
    u32 qpn;
    u32 reserved;
    QpAttributes attributes;
  };
  struct Reply {
    QpState state;
  };
};

struct QueryQp {
  static constexpr Op op = Op::query_qp;
  struct Request {
    u32 qpn;
  };
  struct Reply {
    QpAttributes attributes;
    u32 sq_sig_all;
  };
};

struct DestroyQp {
  static constexpr Op op = Op::destroy_qp;
  struct Request {
    u32 qpn;
  };
  struct Reply {
    u32 async_events_reported;
  };
};

struct CreateAh {
  static constexpr Op op = Op::create_ah;
  struct Request {
    u32 pd;
    u32 reserved;
    AddressVector av;
  };
  struct Reply {
    u32 ah;
  };
};

struct DestroyAh {
  static constexpr Op op = Op::destroy_ah;
  struct Request {
    u32 ah;
  };
  using Reply = Empty;
};

struct AttachMulticast {
  static constexpr Op op = Op::attach_multicast;
  struct Request {
    u32 qpn;
    u16 mlid;
    u16 reserved;
    Gid gid;
  };
  using Reply = Empty;
};

struct DetachMulticast {
  static constexpr Op op = Op::detach_multicast;
  using Request = AttachMulticast::Request;
  using Reply = Empty;
};

// One descriptor: the write end of a channel's pipe, non-blocking. ENOENT when channel or generation has gone.
struct ChannelFd {
  static constexpr Op op = Op::channel_fd;
  struct Request {
    u32 channel;
    u32 generation;
  };
  using Reply = Empty;
};

// One descriptor: the memory file of a process. ESRCH when that process has gone.
struct MemoryFd {
  static constexpr Op op = Op::memory_fd;
  struct Request {
    u32 slot;
    u32 generation;
  };
  using Reply = Empty;
};

// The data path saw something that the object's owner must hear of. softibd writes it to the right async pipe.
struct RaiseEvent {
  static constexpr Op op = Op::raise_event;
  struct Request {
    ObjectKind kind;
    u32 object;
    u32 generation;
    u32 event_type;
  };
  using Reply = Empty;
};

// JSON for `softib status` and `softib link`, in pieces of at most status_piece bytes.
enum class Topic : u32 { all, links };
inline constexpr u32 status_piece = 16 * 1024;
struct Status {
  static constexpr Op op = Op::status;
  struct Request {
    u64 offset;  // 0 takes a new snapshot
    Topic topic;
    u32 reserved;
  };
  struct Reply {
    u64 total;
    u32 length;
    u32 reserved;
    char text[status_piece];
  };
};

// The kernel's UVERBS_METHOD_INFO_HANDLES: ids of one kind that a context holds, at most 4096 of them.
struct ListHandles {
  static constexpr Op op = Op::list_handles;
  struct Request {
    ObjectKind kind;
  };
  struct Reply {
    u32 count;
    u32 total;
    u32 handles[4096];
  };
};

// Looks up again where the address vector of a QP or an AH leads, since routes have changed, and writes it there.
struct FindRoute {
  static constexpr Op op = Op::find_route;
  struct Request {
    ObjectKind kind;  // qp or ah
    u32 object;
  };
  struct Reply {
    u32 port;  // 0: nowhere
    u32 reserved;
  };
};

enum class KeyViolation : u32 { p_key = 0, q_key };

// A message that a QP refused for its key: the target's port tells its subnet manager. Callers tell the first and then
// now and then; Port's counters have them all.
struct ReportViolation {
  static constexpr Op op = Op::report_violation;
  struct Request {
    KeyViolation kind;
    u32 key;
    u32 source_qpn;
    u32 target_qpn;
  };
  using Reply = Empty;
};

// -- MADs (ipc/umad.h)

// Opens /dev/infiniband/umadN of the caller's host; its socket comes as a descriptor. With `issm`, issmN: the port
// counts as one with a subnet manager until the socket is closed. ENXIO: no such port; EAGAIN: somebody else has issmN
// open.
struct OpenUmad {
  static constexpr Op op = Op::open_umad;
  struct Request {
    u32 number;
    u32 issm;
  };
  struct Reply {
    u32 file;
    u32 reserved;
  };
};

// IB_USER_MAD_REGISTER_AGENT and its successor. EINVAL, ENOMEM.
struct UmadRegister {
  static constexpr Op op = Op::umad_register;
  struct Request {
    u32 file;
    u8 qpn;
    u8 mgmt_class;
    u8 class_version;
    u8 rmpp_version;
    u8 oui[3];
    u8 user_rmpp;
    u32 reserved;
    u64 methods[2];  // bit n: method n
  };
  struct Reply {
    u32 agent;
    u32 reserved;
  };
};

struct UmadUnregister {
  static constexpr Op op = Op::umad_unregister;
  struct Request {
    u32 file;
    u32 agent;
  };
  using Reply = Empty;
};

// -- connections

// Opens /dev/infiniband/rdma_cm; its descriptor comes along. That is the read end of a pipe, which can be read as long
// as the file has events; softibd closes the file when the last reader is gone.
struct OpenRdmaCm {
  static constexpr Op op = Op::open_rdma_cm;
  using Request = Empty;
  struct Reply {
    u32 file;
    u32 reserved;
  };
};

// One command (RDMA_USER_CM_CMD_*) with its structure as the program wrote it. The errors are those of the kernel's
// write(); EBADF: no such file.
struct RdmaCmCommand {
  static constexpr Op op = Op::rdma_cm_command;
  static constexpr u32 most_in = 304;
  static constexpr u32 most_extra = 576;
  static constexpr u32 most_out = 1024;
  struct Request {
    u32 file;
    u32 command;
    u32 size;
    u32 room;  // for the answer
    u32 extra_size;
    u32 other_file;  // MIGRATE_ID: whose id it is
    u8 in[most_in];
    u8 extra[most_extra];  // what the command points to
  };
  struct Reply {
    u32 size;
    u32 reserved;
    u8 out[most_out];
  };
};

// Replaces the IP addresses by which rdma_cm knows a port. For tools only (EPERM). ENODEV: no such port; EINVAL.
struct PortAddress {
  u8 family;       // 4 or 6
  u8 prefix;       // bits of the address that name its network
  u16 pkey;        // 0: the port's first
  u8 address[16];  // an IPv4 one lies in the first four
};
struct SetAddresses {
  static constexpr Op op = Op::set_addresses;
  static constexpr u32 most = 64;
  struct Request {
    char host[64];
    char device[64];
    u32 port;
    u32 count;
    PortAddress addresses[most];
  };
  using Reply = Empty;
};

// -- faults on demand

enum class FaultKind : u32 {
  link_down = 1,   // a
  link_up,         // a
  link_flap,       // a, times, ns: down and up again within that
  link_speed,      // a, amount: fabric::Speed
  link_width,      // a, amount: fabric::Width
  bit_errors,      // a, rate
  drop,            // a, rate
  delay,           // a, ns
  link_reset,      // a
  swap,            // a, b
  stick_counters,  // a
  free_counters,   // a
  add_count,       // a, counter, amount
  power_off,       // a: a switch or host
  power_on,
  reboot,  // a: a host; ns: how long it is off
  stop_manager,
  start_manager,
  remove_hca,  // a: an HCA
  add_hca,
  stop_aggregation,
  start_aggregation,
};

// A port of the fabric file, or with port 0 a whole HCA, host or switch.
struct FaultPlace {
  u32 is_switch;
  u32 node;  // index of the switch or host
  u32 hca;
  u32 port;
};

// For tools only (EPERM). EINVAL: what can't be, or a swap of one cable's two ends; ENXIO: no cable; EOPNOTSUPP: on
// Ethernet; ENOENT: softibd runs no subnet manager or no aggregation nodes; EHOSTDOWN: add_hca to a host that is off.
struct Fault {
  static constexpr Op op = Op::fault;
  struct Request {
    FaultKind kind;
    u32 times;
    FaultPlace a;
    FaultPlace b;
    u64 ns;
    u64 amount;
    double rate;
    PortCounter counter;  // add_count: one of errors
    u32 reserved;
  };
  struct Reply {
    u32 changed;   // 0: it was so already
    u32 killed;    // programs
    u32 spared;    // that can't be killed from here
    u32 disabled;  // link_up: ports at the cable that their manager has disabled, so that it stays down
  };
};

// -- a host's files. These two need no attachment: who only looks takes no process slot.

// Makes the host's sysfs tree, below the fabric's folder, unless it is there. ENODEV: no such host; EPERM: nobody runs
// programs on it; EHOSTDOWN: it has no power.
struct PrepareHost {
  static constexpr Op op = Op::prepare_host;
  struct Request {
    char host[64];
  };
  struct Reply {
    PlaceKind place;
    u32 host;  // index
  };
};

// What a port's performance counter stands at now. ENODEV: no such port; EOPNOTSUPP: nothing counts there.
struct ReadCounter {
  static constexpr Op op = Op::read_counter;
  struct Request {
    char host[64];
    char device[64];
    u32 port;
    PortCounter counter;
  };
  struct Reply {
    u64 value;
  };
};

// A TCP socket of the machine's network, as a descriptor, for a program in a host's namespaces to which the machine's
// address is out of reach: without root no interface joins the machine to its hosts. ENETUNREACH: the address is none
// of this machine's, or there is a way. Needs no attachment.
struct MachineSocket {
  static constexpr Op op = Op::machine_socket;
  struct Request {
    u32 family;       // AF_INET: the first four bytes of `address`
    u32 is_last_try;  // 1: the network has said that there is no way
    u8 address[16];
  };
  struct Reply {
    u8 address[16];  // what to connect the socket to
  };
};

}  // namespace softib::ipc
