#include "daemon/rdma_cm/path_record.h"

#include <algorithm>

#include "sm/sa/records.h"

namespace softib::daemon {

namespace {

namespace field = sm::sa::path;

}  // namespace

cm::Path read_path(std::span<const u8> record, bool ethernet) {
  cm::Path path;
  if (record.size() < field::size) return path;
  path.ethernet = ethernet;
  std::copy_n(record.begin() + field::dgid_at, path.dgid.size(), path.dgid.begin());
  std::copy_n(record.begin() + field::sgid_at, path.sgid.size(), path.sgid.begin());
  path.dlid = static_cast<u16>(get(record, field::dlid));
  path.slid = static_cast<u16>(get(record, field::slid));
  path.flow_label = static_cast<u32>(get(record, field::flow_label));
  path.hop_limit = static_cast<u8>(get(record, field::hop_limit));
  path.traffic_class = static_cast<u8>(get(record, field::traffic_class));
  path.pkey = static_cast<u16>(get(record, field::pkey));
  path.sl = static_cast<u8>(get(record, field::sl));
  path.mtu = static_cast<u8>(get(record, field::mtu));
  path.rate = static_cast<u8>(get(record, field::rate));
  path.packet_life = static_cast<u8>(get(record, field::life) & 31);
  return path;
}

PathRecordBytes write_path(const cm::Path& path) {
  PathRecordBytes record{};
  constexpr u64 exactly = static_cast<u64>(sm::sa::Selector::exactly);
  std::copy(path.dgid.begin(), path.dgid.end(), record.begin() + field::dgid_at);
  std::copy(path.sgid.begin(), path.sgid.end(), record.begin() + field::sgid_at);
  set(record, field::dlid, path.dlid);
  set(record, field::slid, path.slid);
  set(record, field::flow_label, path.flow_label);
  set(record, field::hop_limit, path.hop_limit);
  set(record, field::traffic_class, path.traffic_class);
  set(record, field::reversible, 1);
  set(record, field::count, 1);
  set(record, field::pkey, path.pkey);
  set(record, field::sl, path.sl);
  set(record, field::mtu_selector, exactly);
  set(record, field::mtu, path.mtu);
  set(record, field::rate_selector, exactly);
  set(record, field::rate, path.rate);
  set(record, field::life_selector, exactly);
  set(record, field::life, path.packet_life);
  return record;
}

}  // namespace softib::daemon
