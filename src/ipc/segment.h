// The shared segment: everything about a fabric that more than one process must see at memory speed.
//
// One memfd per fabric, made by softibd and mapped whole by every process that attaches. It holds tables of
// pointer-free records and, behind them, an arena of pages for the rxe rings. Nothing in it is trusted as an index
// without a mask or a bound: any process of the user can write it.
//
// Who writes what:
//   softibd            creates and destroys records, changes QP states on request, keeps ports, AHs, multicast groups
//   the QP's owner     its QP's `requester` part, its rings, memory window bindings
//   the peer's owner   a QP's `responder` part and CQs, under their locks
//
// Lifetime: a process announces that it is inside the data path by making its lane's `sequence` odd (ipc/quiesce.h);
// a record or ring that softibd takes away is reused only after every lane that was odd has moved on.
#pragma once

#include <atomic>
#include <bit>
#include <concepts>
#include <type_traits>

#include "base/types.h"

namespace softib::ipc {

// Bumped with every change of layout or protocol; shim and daemon of different versions refuse each other (EPROTO).
inline constexpr u32 interface_version = 5;
inline constexpr u64 segment_magic = 0x31'42'49'74'66'6f'53ULL;  // "SoftIB1"

inline constexpr u32 max_processes = 4096;
inline constexpr u32 lanes_per_process = 32;
inline constexpr u32 max_devices = 32768;
inline constexpr u32 max_ports = 65536;
inline constexpr u32 max_qps = 1U << 19;  // index = QPN; 0 and 1 are the ports' special QPs and never in this table
inline constexpr u32 max_cqs = 1U << 19;
inline constexpr u32 max_srqs = 1U << 16;
inline constexpr u32 max_keys = 1U << 21;  // index = rkey >> 8
inline constexpr u32 max_ahs = 1U << 19;
inline constexpr u32 max_groups = 1U << 14;
inline constexpr u32 max_links = 1U << 17;  // directions of cables that something is to be done at
inline constexpr u32 lid_count = 0xC000;    // unicast LIDs 0x0001..0xBFFF
inline constexpr u32 max_gids_per_port = 16;
inline constexpr u32 max_pkeys_per_port = 32;
inline constexpr u64 page_size = 4096;
inline constexpr u64 arena_size = 1ULL << 37;  // 128 GiB of address space; memory is taken page by page on first touch
inline constexpr u64 cache_line = 64;

template <typename T>
concept Shareable = std::is_standard_layout_v<T> && std::is_trivially_destructible_v<T>;

// Index types: 0 always means "none".
enum class ProcessSlot : u32 { none = 0 };

enum class LinkLayer : u8 { infiniband = 1, ethernet = 2 };
enum class QpType : u8 { none = 0, rc = 2, uc = 3, ud = 4 };                             // values of enum ibv_qp_type
enum class QpState : u32 { reset = 0, init, rtr, rts, sqd, sqe, err, destroyed = 100 };  // 0..6 as enum ibv_qp_state

// A lock that lies in shared memory and names its holder's process slot, so that softibd can release what a dead
// process held (hca/repair.h). Critical sections under it are written to be safe to abandon at any instruction.
struct SharedLock {
  std::atomic<u32> holder;  // 0 free, else the holder's process slot
};

// Set by each thread that enters the data path: odd inside, even outside. One line each: no false sharing.
struct alignas(cache_line) Lane {
  std::atomic<u64> sequence;
  std::atomic<u32> taken;  // 1 while a thread of the process owns this lane
};

enum class AgentOp : u32 { none = 0, read, write, compare_swap, fetch_add };

// A request to the agent thread of a process, for memory that can be reached in no other way. One at a time per
// process, under `lock`; the data goes through the bounce buffer at `bounce_offset` in the arena.
struct alignas(cache_line) AgentMailbox {
  SharedLock lock;
  std::atomic<u32> state;  // 0 idle, 1 posted, 2 answered; a futex that the requester waits on
  AgentOp op;
  i32 error;  // 0 or an errno, with state 2
  u64 address;
  u64 length;
  u64 operand[2];     // compare_swap: compare, swap; fetch_add: add
  u64 result;         // the old value
  u64 bounce_offset;  // arena offset of bounce_size bytes, 0 until softibd has placed it
};
inline constexpr u64 agent_bounce_size = 256 * 1024;

enum class ProcessState : u32 { free = 0, live = 1, dead = 2 };

struct alignas(cache_line) Process {
  std::atomic<ProcessState> state;
  std::atomic<u32> generation;  // changes each time the slot is given out
  i32 pid;                      // as softibd's pid namespace sees it; 0 when it can't
  u32 host;                     // index of the host that the process runs on
  u64 pid_namespace;            // st_ino of /proc/self/ns/pid; process_vm_* is tried only where it is one's own
  i32 local_pid;                // the pid in that namespace
  std::atomic<u32> kick;        // futex: bumped to wake the engine thread
  std::atomic<u32> qp_errors;   // bumped when somebody took a QP of this process to ERR: its queues want flushing
  AgentMailbox agent;
  Lane lanes[lanes_per_process];
};

enum class PortState : u8 { down = 1, init = 2, armed = 3, active = 4 };  // enum ibv_port_state

struct Gid {
  u8 raw[16];
  friend bool operator==(const Gid&, const Gid&) = default;
};
enum class GidType : u8 { ib = 0, roce_v1 = 1, roce_v2 = 2 };  // IB_UVERBS_GID_TYPE_*

struct alignas(cache_line) Port {
  std::atomic<PortState> state;
  LinkLayer link_layer;
  u8 number;  // 1-based on its device
  u8 lmc;
  u8 sm_sl;
  u8 active_mtu;  // enum ibv_mtu
  u8 max_mtu;
  u8 active_width;
  u8 phys_state;
  u8 reserved[1];
  u16 lid;
  u16 sm_lid;
  u16 pkey_count;
  u16 gid_count;
  u32 active_speed;    // enum value of rates.md, "ibv active_speed"
  u32 device;          // index into devices
  u32 port_cap_flags;  // IBV_PORT_*
  u32 peer;            // index of the port at the cable's other end when that is a host's; 0 behind a switch
  std::atomic<u32> pkey_violations;
  std::atomic<u32> qkey_violations;
  u64 guid;  // host order
  u16 pkeys[max_pkeys_per_port];
  Gid gids[max_gids_per_port];
  GidType gid_types[max_gids_per_port];
};

struct alignas(cache_line) Device {
  char name[64];         // "mlx5_0"
  char description[64];  // NodeDescription
  u32 host;
  u32 index_on_host;  // 0-based; uverbsN carries it
  u32 first_port;     // index into ports; ports of a device are adjacent
  u32 port_count;
  u64 node_guid;  // host order
  u64 system_guid;
  u32 vendor_id;
  u32 device_id;
  u32 hardware_version;
  u64 firmware_version;       // as ib_uverbs_query_device_resp.fw_ver
  std::atomic<u32> removals;  // how often it was taken out: contexts from before that are dead
};

enum class KeyKind : u8 { none = 0, region, window1, window2 };

// A memory region or memory window. `key` is what a work request must name; 0 while the record is invalid, so a reader
// takes key, fields, key again.
struct alignas(cache_line) Key {
  std::atomic<u32> key;
  KeyKind kind;
  u8 bound;  // windows: 1 while bound
  u16 reserved;
  u32 access;  // IBV_ACCESS_*
  u32 pd;
  u32 qpn;                   // type 2 windows: the QP that bound it
  u32 region;                // windows: index of the region below
  std::atomic<u32> windows;  // regions: how many windows are bound to it
  u32 owner;                 // process slot whose address space `address` names
  u32 owner_generation;
  u32 context;
  u64 iova;  // what remote_addr and sge.addr start from
  u64 length;
  u64 address;  // user address of the first byte
  // Owner's addresses [shared_begin, shared_end) lie in the owner's memory file at file offset = address, so peers
  // reach them by plain loads and stores. What is outside goes by process_vm_* or the agent.
  u64 shared_begin;
  u64 shared_end;
};

enum class Arm : u32 { none = 0, next = 1, solicited = 2 };

// In the counters of events that were read (Cq, Srq, Qp: *events_reported): softibd sets it when it destroys the
// object, with the same fetch_or that reads the final count; a reader that finds it set drops its event. So what a
// destroy command reports is exactly what the program has been given.
inline constexpr u32 events_closed = 1U << 31;

// A completion queue. The ring's published indices lie in its rxe_queue_buf; the copies here are the producers' own.
struct alignas(cache_line) Cq {
  SharedLock lock;
  u32 producer;          // next index to write, masked; equals the ring's producer_index outside the lock
  u32 consumer_cache;    // last seen consumer_index: re-read only when the ring looks full
  u32 mask;              // ring slots - 1
  u64 ring;              // arena offset of the rxe_queue_buf
  std::atomic<Arm> arm;  // changed under lock
  u32 channel;           // completion channel id, 0 = none
  u32 channel_generation;
  std::atomic<u32> overrun;  // 1 after an overrun: nothing is added any more
  u32 context;
  u32 owner;                    // process slot of the creator
  u64 user_handle;              // goes back in ib_uverbs_comp_event_desc and async events
  std::atomic<u32> generation;  // 0 while free
  u32 moderation_count;
  std::atomic<u32> events_reported;  // completion events that were read
  std::atomic<u32> async_events_reported;
  std::atomic<u32> firing;  // process slot that disarmed it and has yet to write the event, 0 = none
};

struct alignas(cache_line) Srq {
  SharedLock lock;
  u32 mask;
  u64 ring;
  u32 max_sge;
  u32 max_wr;
  std::atomic<u32> limit;  // armed watermark, 0 = disarmed
  u32 pd;
  u32 context;
  u32 owner;
  u64 user_handle;
  std::atomic<u32> generation;  // 0 while free
  std::atomic<u32> error;
  std::atomic<u32> async_events_reported;
};

// Whom a multicast address reaches.
enum class Reach : u8 { everyone = 0, listed = 1 };

struct AddressVector {
  u8 port_num;
  u8 sl;
  u8 src_path_bits;
  u8 static_rate;
  u16 dlid;
  u8 is_global;
  u8 sgid_index;
  u8 hop_limit;
  u8 traffic_class;
  Reach reach;
  u8 reserved[1];
  u32 flow_label;
  Gid dgid;
  u32 port;         // index of the destination port that this resolved to; 0 = unreachable. A cache: see route_epoch
  u32 group;        // index of the multicast group; 0 = unicast
  u32 route_epoch;  // Header::route_epoch at resolution
  u32 way;          // page of the arena where the Way lies; 0 = none
};

// What an address leads past, where more than the port at its end matters. softibd replaces it, never edits it.
// Behind it lie ports, then the links there, then those back.
struct Way {
  u32 port_count;   // multicast with Reach::listed: the ports that the switches' tables lead to, ascending
  u32 there_count;  // links that are paced, lossy or slow, in the order of the packet
  u32 back_count;
};

// One direction of a cable, as soon as a packet's time or fate depends on it. softibd writes what it does, the data
// path its use.
struct alignas(cache_line) Link {
  std::atomic<u32> mbps;  // what it carries; 0: as fast as memory
  std::atomic<u64> delay_ns;
  std::atomic<double> drop;        // share of packets that get lost
  std::atomic<double> bit_errors;  // a bit
  std::atomic<u64> busy_until;     // CLOCK_MONOTONIC ns
  std::atomic<u64> lost_packets;
  // Time with something to send less time of sending: waits for the links behind it. Falls back by what is sent while
  // others wait.
  std::atomic<u64> waited_ns;
  std::atomic<u64> pending_until;  // up to when times with something to send are counted
};

// What has gone over the wire, in the units of the port counters (hca/rules/wire_cost.h). softibd adds it up along the
// route.
struct alignas(cache_line) Traffic {
  std::atomic<u64> out_packets;
  std::atomic<u64> out_words;
  std::atomic<u64> back_packets;  // the other way: acknowledgements and responses
  std::atomic<u64> back_words;
  std::atomic<u64> astray_packets;  // answers that take the peer's way, which does not lead back here
  std::atomic<u64> astray_words;
};

struct alignas(cache_line) Ah {
  std::atomic<u32> generation;  // 0 while free
  u32 pd;
  u32 context;
  u32 port;  // index of the local port
  AddressVector av;
  Traffic traffic;  // written by all who send with it
};

// Multicast group. `members` is the arena offset of u32 qpn[member_count]; softibd replaces the array, never edits it.
struct alignas(cache_line) Group {
  std::atomic<u32> sequence;  // odd while softibd changes members/member_count
  u16 mlid;
  u16 reserved;
  Gid mgid;
  std::atomic<u32> member_count;
  std::atomic<u64> members;
};

// What a requester is waiting for.
enum class Wait : u32 { none = 0, rnr, ack_timeout, drained, passage };

// Of a message on links that hold it up, once its time and fate are known (hca/engine/passage.h).
enum class Passage : u32 { none = 0, arriving, losing };

// A queue pair, in four parts by writer.
struct alignas(cache_line) Qp {
  // -- configuration: softibd writes, everybody reads
  std::atomic<QpState> state;   // softibd, and by compare-exchange any process that takes the QP to ERR or SQE
  std::atomic<u32> generation;  // 0 while free
  QpType type;
  LinkLayer link_layer;
  u8 sq_sig_all;
  u8 timeout;  // local ACK timeout exponent; 0 = wait for ever
  u8 retry_count;
  u8 rnr_retry;
  u8 min_rnr_timer;
  u8 max_rd_atomic;
  u8 max_dest_rd_atomic;
  u8 sq_draining;
  u16 pkey;  // the value at pkey_index
  u32 qpn;
  u32 pd;
  u32 context;
  u32 owner;  // process slot
  u32 send_cq;
  u32 recv_cq;
  u32 srq;   // 0 = own receive queue
  u32 port;  // index of the local port, once INIT
  u32 dest_qpn;
  u32 qkey;
  u32 access;    // qp_access_flags
  u32 path_mtu;  // bytes
  u32 rq_psn;
  u32 sq_psn;
  u32 sq_mask;
  u32 rq_mask;
  u64 sq_ring;  // arena offsets
  u64 rq_ring;
  u8 sq_log2_size;
  u8 rq_log2_size;
  u16 pkey_index;
  u32 max_send_sge;
  u32 max_recv_sge;
  u32 max_inline;
  u64 user_handle;
  AddressVector av;

  // -- requester: written by the owner's process only
  struct alignas(cache_line) Requester {
    std::atomic<u32> active;  // doorbells not yet carried out: 0 -> 1 makes the caller the driver
    std::atomic<Wait> wait;   // not none: the engine thread owns the next try
    u32 next_psn;
    u32 retries_left;
    u32 rnr_left;
    u64 deadline;   // CLOCK_MONOTONIC ns of the next try
    u64 rnr_since;  // CLOCK_MONOTONIC ns of the first RNR NAK of the request at the head; 0: none
    Passage passage;
    u32 packets_left;  // of the request at the head, after a loss; 0: all
    u64 sent_until;    // CLOCK_MONOTONIC ns: when the last message had left the slowest link
  } requester;

  Traffic traffic;  // written by who drives the send queue

  // -- responder: written by whoever delivers to this QP, under `lock`
  struct alignas(cache_line) Responder {
    SharedLock lock;
    u32 expected_psn;
    u32 consumer;              // next receive WQE, masked; equals the ring's consumer_index outside the lock
    u32 producer_cache;        // last seen producer_index
    std::atomic<u32> claimed;  // 0 none, 1 a receive WQE is taken but not completed, 2 its completion is being written
    u32 claimed_cqe;           // with claimed == 2: the CQ index that the completion goes to
    u64 claimed_wr_id;
    u32 established;  // COMM_EST was raised
    u32 last_wqe_raised;
    u32 message_open;  // reserved for multi-packet transports
  } responder;

  std::atomic<u32> async_events_reported;
};

struct alignas(cache_line) Header {
  u64 magic;
  u32 version;
  u32 size_of_qp;  // a second check against mixed builds
  u64 total_size;
  u64 boot_id;  // random; tells one run of a fabric from the next
  i32 daemon_pid;
  std::atomic<u32> daemon_alive;
  std::atomic<u32> route_epoch;  // bumped when any port, LID or route changes
  std::atomic<u32> death_epoch;  // bumped when a process died: peers drop their mappings of its memory
  u32 device_count;              // devices 1..device_count are in use
  u32 port_count;
  std::atomic<u32> qp_limit;  // one past the highest index ever used: bounds scans
  std::atomic<u32> cq_limit;
  std::atomic<u32> srq_limit;
  std::atomic<u32> process_limit;
  char fabric[64];
};

// The whole segment. Never constructed: a zero-filled memfd is a valid empty one, apart from the header.
struct Segment {
  Header header;
  Process processes[max_processes];
  Device devices[max_devices];
  Port ports[max_ports];
  std::atomic<u32> port_of_lid[lid_count];
  Group groups[max_groups];
  Link links[max_links];
  Qp qps[max_qps];
  Cq cqs[max_cqs];
  Srq srqs[max_srqs];
  Key keys[max_keys];
  Ah ahs[max_ahs];
  alignas(page_size) u8 arena[arena_size];
};

static_assert(Shareable<Segment>);
static_assert(std::atomic<u64>::is_always_lock_free && std::atomic<u32>::is_always_lock_free);
static_assert(sizeof(Lane) == 64 && sizeof(Ah) == 128 && sizeof(Link) == 64);
static_assert(sizeof(Key) == 128 && sizeof(Cq) == 128);
static_assert(sizeof(Qp) <= 512);
static_assert(std::endian::native == std::endian::little);

inline constexpr u64 segment_size = sizeof(Segment);

}  // namespace softib::ipc
