// What programs and aggregation nodes say to each other: segments of vectors on queue pairs, and words of management by
// datagrams. Everything is checked when it is read; nobody trusts what a network brings.
//
// A segment, little-endian:
//
//    0        4      5      6    7       8       12      16         24           64
//   +--------+------+------+----+-------+-------+-------+----------+------------+--------------+
//   | magic  | kind | type | op | gives | job   | bytes | sequence | 0 ...      | data         |
//   +--------+------+------+----+-------+-------+-------+----------+------------+--------------+
//
// The header is 64 bytes long, so that data begins at a cache line, and a segment of 64 bytes less than some packets
// fills them.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "base/types.h"
#include "coll/net/bytes.h"
#include "coll/types.h"

namespace softib::coll::innetwork {

// -- on queue pairs ---------------------------------------------------------------------------------------------------

enum class SegmentKind : u8 {
  hello = 1,     // the first one from below: the queue pair works
  contribution,  // from below
  result,        // from above
  failure,       // from above: the data is text, and nothing comes any more
  bye,           // from below: nothing comes any more
};

inline constexpr u32 segment_header = 64;  // bytes
inline constexpr u32 most_segment = u32{1} << 20;
inline constexpr u32 most_failure_text = 448;

struct Segment {
  SegmentKind kind = SegmentKind::hello;
  DataType type = DataType::int8;
  Op op = Op::sum;
  bool gives = true;  // a contribution without data takes part, but gives nothing: of a broadcast
  u32 job = 0;
  u32 bytes = 0;     // of the vector's segment; what is behind the header is as long, or nothing
  u64 sequence = 0;  // counts the segments of a job

  friend bool operator==(const Segment&, const Segment&) = default;
  [[nodiscard]] u32 data_bytes() const { return gives ? bytes : 0; }
};

// Into the first 64 bytes.
void emit(const Segment& segment, std::byte* to);
// Nothing: not a whole segment of this version, or one that contradicts itself.
[[nodiscard]] std::optional<Segment> parse_segment(std::span<const std::byte> message);

// -- by datagrams -----------------------------------------------------------------------------------------------------

// A queue pair's end.
struct End {
  u16 lid = 0;
  u8 mtu = 5;     // as ibv_mtu
  u32 pair = 0;   // number of the queue pair
  u32 first = 0;  // its first packet's sequence number

  friend bool operator==(const End&, const End&) = default;
};

struct Member {
  End end;
  std::string name;  // "rank 3 on host1"
  friend bool operator==(const Member&, const Member&) = default;
};

// How much a job may have under way.
struct Quota {
  u32 segment_bytes = 0;  // of data
  u32 outstanding = 0;    // segments

  friend bool operator==(const Quota&, const Quota&) = default;
};

// A node to the manager, again and again: here I am. The answer is `Welcome`.
struct NodeHello {
  u64 guid = 0;  // of the port
  u16 lid = 0;
  u32 pair = 0;  // where words of management are heard
  u32 most_jobs = 0;
  u32 most_children = 0;
  Quota most;
  std::string name;
  std::vector<u32> jobs;  // that it has

  friend bool operator==(const NodeHello&, const NodeHello&) = default;
};
struct Welcome {
  u64 manager = 0;             // differs from manager to manager, and from one life to the next
  std::vector<u32> forgotten;  // jobs that the manager knows no more
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

// A program to the manager. The answer is `JobBegun` or `Refused`.
struct BeginJob {
  u32 ranks = 0;                // by which an average is divided
  u8 sl = 0;                    // service level of all its segments
  Quota wanted;                 // 0: whatever there is
  std::vector<Member> members;  // who has a queue pair each
  friend bool operator==(const BeginJob&, const BeginJob&) = default;
};
struct JobBegun {
  u32 job = 0;
  u64 key = 0;
  Quota quota;
  std::vector<Member> nodes;  // for each member the queue pair of its node, and the node's name
  std::string tree;           // for people
  friend bool operator==(const JobBegun&, const JobBegun&) = default;
};
struct EndJob {
  u32 job = 0;
  u64 key = 0;
  friend bool operator==(const EndJob&, const EndJob&) = default;
};

// The manager to a node. The answer is `Prepared` or `Refused`.
struct PrepareJob {
  u32 job = 0;
  u32 ranks = 0;
  u8 sl = 0;
  Quota quota;
  bool has_parent = false;
  u32 members = 0;                    // so many of the children, the first ones, are members; the others are nodes
  std::vector<std::string> children;  // names
  friend bool operator==(const PrepareJob&, const PrepareJob&) = default;
};
struct Prepared {
  End parent;
  std::vector<End> children;
  friend bool operator==(const Prepared&, const Prepared&) = default;
};
// The answer is `Done` or `Refused`.
struct ConnectJob {
  u32 job = 0;
  End parent;
  std::vector<End> children;
  friend bool operator==(const ConnectJob&, const ConnectJob&) = default;
};
struct DismissJob {
  u32 job = 0;
  std::string why;
  friend bool operator==(const DismissJob&, const DismissJob&) = default;
};

// A node to the manager: a job is over here, in order or because of a failure.
struct JobOver {
  u64 guid = 0;
  u32 job = 0;
  bool in_order = true;
  std::string why;
  friend bool operator==(const JobOver&, const JobOver&) = default;
};

// Anybody to the manager. The answer is `Report`.
struct AskReport {
  friend bool operator==(const AskReport&, const AskReport&) = default;
};
struct Report {
  std::vector<std::string> nodes;
  u32 jobs = 0;
  u32 trees_built = 0;
  friend bool operator==(const Report&, const Report&) = default;
};

struct Done {
  friend bool operator==(const Done&, const Done&) = default;
};
struct Refused {
  std::string why;
  friend bool operator==(const Refused&, const Refused&) = default;
};

using Words = std::variant<NodeHello, Welcome, BeginJob, JobBegun, EndJob, PrepareJob, Prepared, ConnectJob, DismissJob,
                           JobOver, AskReport, Report, Done, Refused>;

[[nodiscard]] Bytes emit(const Words& words);
[[nodiscard]] std::optional<Words> parse_words(std::span<const std::byte> message);

// -- where the manager is ---------------------------------------------------------------------------------------------

// What its service record with subnet administration says.
struct ManagerAddress {
  u16 lid = 0;
  u16 version = 1;
  u32 pair = 0;
  u32 qkey = 0;
  friend bool operator==(const ManagerAddress&, const ManagerAddress&) = default;
};

inline constexpr u16 protocol_version = 1;
inline constexpr u32 management_qkey = 0x5341'4e00;  // not a controlled one: bit 31 is clear
inline constexpr std::string_view service_name = "softib.aggregation_manager";

}  // namespace softib::coll::innetwork
