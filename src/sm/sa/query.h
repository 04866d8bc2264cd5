// A question to subnet administration, and the records that answer it.
#pragma once

#include <functional>
#include <vector>

#include "sm/sa/administration.h"
#include "sm/sa/records.h"

namespace softib::sm::sa {

using wire::GidBytes;

struct Query {
  wire::Packet packet;   // as it came; of a long one the first segment
  std::vector<u8> data;  // the record, and what follows it
  u64 mask = 0;
  u32 modifier = 0;
  wire::Method method{};
  RecordType type{};
  bool trusted = false;  // it had the manager's key
  End from;              // the port that asks, where that is known

  [[nodiscard]] bool has(u32 component) const { return (mask >> component & 1) != 0; }
  [[nodiscard]] u64 get(wire::Field field) const { return wire::get(data, field); }
  [[nodiscard]] GidBytes gid(u32 at) const {
    GidBytes gid{};
    if (at + gid.size() <= data.size()) std::copy_n(data.begin() + at, gid.size(), gid.begin());
    return gid;
  }
};

// The answer: those records that match.
class Answer {
 public:
  Answer(const Layout& layout, const Query& query) : layout_(layout), query_(query) {}

  // Whether records of this LID can match at all.
  [[nodiscard]] bool wants(u16 lid) const {
    return !layout_.has_lid || !query_.has(0) || query_.get(lid_record::lid) == lid;
  }
  void add(std::span<const u8> record) {
    const bool bits = query_.type != RecordType::port_info || (query_.modifier >> 31) != 0;
    if (matches(layout_, query_.data, query_.mask, record, bits)) add_anyway(record);
  }
  void add_anyway(std::span<const u8> record) {
    const std::size_t from = bytes.size();
    bytes.resize(from + layout_.size);
    std::copy_n(record.begin(), std::min<std::size_t>(record.size(), layout_.size),
                bytes.begin() + static_cast<std::ptrdiff_t>(from));
    ++count;
  }

  void replace_last(std::span<const u8> record) {
    std::copy_n(record.begin(), std::min<std::size_t>(record.size(), layout_.size),
                bytes.end() - static_cast<std::ptrdiff_t>(layout_.size));
  }

  std::vector<u8> bytes;
  u32 count = 0;

 private:
  const Layout& layout_;
  const Query& query_;
};

// A record under construction, zeros at first.
template <u32 Size>
struct Record {
  std::array<u8, Size> bytes{};
  void set(wire::Field field, u64 value) { wire::set(bytes, field, value); }
  void put(u32 at, std::span<const u8> data) {
    std::copy_n(data.begin(), std::min<std::size_t>(data.size(), Size - at), bytes.begin() + at);
  }
};

[[nodiscard]] inline GidBytes make_gid(u64 prefix, u64 guid) {
  GidBytes gid{};
  wire::set(gid, {0, 64}, prefix);
  wire::set(gid, {64, 64}, guid);
  return gid;
}
[[nodiscard]] inline u64 prefix_of(const GidBytes& gid) { return wire::get(gid, {0, 64}); }
[[nodiscard]] inline u64 guid_of(const GidBytes& gid) { return wire::get(gid, {64, 64}); }

// The port that a GID of this subnet belongs to.
[[nodiscard]] std::optional<End> end_of_gid(const View& view, const GidBytes& gid);
// A P_Key by which two ports can talk; 0 if there is none. With both as full members it has the membership bit.
[[nodiscard]] u16 common_pkey(const Port& a, const Port& b);
[[nodiscard]] bool holds_pkey(const Port& port, u16 pkey);
// Whether the asker may know of a port.
[[nodiscard]] bool visible(const View& view, const Query& query, End end);

// -- what the subnet's model holds (nodes.cpp)
void add_nodes(const View& view, const Query& query, Answer& answer);
void add_port_infos(const View& view, const Query& query, Answer& answer);
void add_switch_infos(const View& view, const Query& query, Answer& answer);
void add_links(const View& view, const Query& query, Answer& answer);
void add_linear(const View& view, const Query& query, Answer& answer);
void add_multicast(const View& view, const Query& query, Answer& answer);
void add_managers(const View& view, const Query& query, Answer& answer);

// -- paths (paths.cpp)
struct PathTraits {
  u8 mtu = 0;
  u8 rate = 0;
  u8 sl = 0;
  u16 pkey = 0;
  std::vector<End> hops;  // the ports through which it leaves each node
};
[[nodiscard]] std::optional<PathTraits> find_path(const View& view, End from, End to, u16 dlid);
[[nodiscard]] SaStatus add_paths(const View& view, const Query& query, Answer& answer);
[[nodiscard]] SaStatus add_multi_paths(const View& view, const Query& query, Answer& answer);
void add_trace(const View& view, const Query& query, Answer& answer);

// -- what has to be asked for first (tables.cpp)
struct Wanted {
  End end;
  SmpAttribute attribute{};
  u32 modifier = 0;
  Record<72> record;  // with its head filled in
  u32 data_at = 8;
  u32 size = 64;
  bool is_empty = false;  // a table of zeros, which no node has to be asked for
};
[[nodiscard]] std::vector<Wanted> wanted_tables(const View& view, const Query& query, Answer& answer);

}  // namespace softib::sm::sa
