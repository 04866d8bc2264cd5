// What device and ports are: read from the segment, no call to softibd.
#include <arpa/inet.h>
#include <endian.h>

#include "hca/limits.h"
#include "kernel/capabilities.h"
#include "kernel/methods/handlers.h"

namespace softib::kernel::methods {

namespace {

namespace limits = hca::limits;

constexpr u8 subnet_timeout = 18;  // 4.096 us * 2^18, about a second: the usual value on InfiniBand
constexpr u8 four_virtual_lanes = 3;
constexpr u8 fastest_in_a_byte = 128;  // NDR; faster links have their value in active_speed_ex only

// struct ib_uverbs_query_port_resp_ex of newer headers: the same size, the last reserved bytes put to use.
struct PortAnswer {
  ib_uverbs_query_port_resp legacy;
  u16 port_cap_flags2;
  u8 reserved[2];
  u32 active_speed_ex;
};
static_assert(sizeof(PortAnswer) == sizeof(ib_uverbs_query_port_resp_ex));

void fill_limits(ib_uverbs_query_device_resp& out) {
  out.max_mr_size = limits::max_mr_size;
  out.max_qp = limits::max_qp;
  out.max_qp_wr = limits::max_qp_wr;
  out.max_sge = limits::max_sge;
  out.max_sge_rd = limits::max_sge_rd;
  out.max_cq = limits::max_cq;
  out.max_cqe = limits::max_cqe;
  out.max_mr = limits::max_mr;
  out.max_pd = limits::max_pd;
  out.max_qp_rd_atom = limits::max_rd_atomic;
  out.max_res_rd_atom = limits::max_res_rd_atomic;
  out.max_qp_init_rd_atom = limits::max_rd_atomic;
  out.max_mw = limits::max_mw;
  out.max_mcast_grp = limits::max_mcast_groups;
  out.max_mcast_qp_attach = limits::max_mcast_qp_attach;
  out.max_total_mcast_qp_attach = limits::max_total_mcast_qp_attach;
  out.max_ah = limits::max_ah;
  out.max_srq = limits::max_srq;
  out.max_srq_wr = limits::max_srq_wr;
  out.max_srq_sge = limits::max_srq_sge;
  out.local_ca_ack_delay = limits::local_ca_ack_delay;
}

ib_uverbs_query_device_resp describe_device(Interpreter& file) {
  const ipc::Device& device = file.device();
  ib_uverbs_query_device_resp out{};
  fill_limits(out);
  out.fw_ver = device.firmware_version;
  out.node_guid = htobe64(device.node_guid);
  out.sys_image_guid = htobe64(device.system_guid);
  out.page_size_cap = capabilities::page_size_cap;
  out.vendor_id = device.vendor_id;
  out.vendor_part_id = device.device_id;
  out.hw_ver = device.hardware_version;
  out.device_cap_flags = static_cast<u32>(capabilities::device_flags);
  out.atomic_cap = static_cast<u32>(capabilities::atomics);
  out.phys_port_cnt = static_cast<u8>(std::min<u32>(device.port_count, 255));
  for (u32 number = 1; number <= device.port_count; ++number) {
    const ipc::Port* port = file.find_port(number);
    if (port) out.max_pkeys = std::max(out.max_pkeys, port->pkey_count);
  }
  return out;
}

ib_uverbs_query_port_resp describe_port(const ipc::Port& port) {
  bool infiniband = port.link_layer == ipc::LinkLayer::infiniband;
  ib_uverbs_query_port_resp out{};
  out.port_cap_flags = port.port_cap_flags;
  out.max_msg_sz = limits::max_message;
  out.bad_pkey_cntr = port.pkey_violations.load(std::memory_order_relaxed);
  out.qkey_viol_cntr = port.qkey_violations.load(std::memory_order_relaxed);
  out.gid_tbl_len = port.gid_count;
  out.pkey_tbl_len = port.pkey_count;
  out.lid = port.lid;
  out.sm_lid = port.sm_lid;
  out.state = static_cast<u8>(port.state.load(std::memory_order_relaxed));
  out.max_mtu = port.max_mtu;
  out.active_mtu = port.active_mtu;
  out.lmc = port.lmc;
  out.max_vl_num = infiniband ? four_virtual_lanes : 0;
  out.sm_sl = port.sm_sl;
  out.subnet_timeout = infiniband ? subnet_timeout : 0;
  out.active_width = port.active_width;
  out.active_speed = port.active_speed > 255 ? fastest_in_a_byte : static_cast<u8>(port.active_speed);
  out.phys_state = port.phys_state;
  out.link_layer = static_cast<u8>(port.link_layer);
  if (!infiniband) out.flags = IB_UVERBS_QPF_GRH_REQUIRED;
  return out;
}

bool is_set(const ipc::Gid& gid) { return gid != ipc::Gid{}; }

ib_uverbs_gid_entry describe_gid(const ipc::Port& port, u32 index) {
  ib_uverbs_gid_entry entry{};
  std::memcpy(entry.gid, port.gids[index].raw, sizeof port.gids[index].raw);
  entry.gid_index = index;
  entry.port_num = port.number;
  entry.gid_type = static_cast<u32>(port.gid_types[index]);
  return entry;
}

u32 table_length(const ipc::Port& port) { return std::min<u32>(port.gid_count, ipc::max_gids_per_port); }

}  // namespace

Result<void> query_device(Interpreter& file, Command& command) {
  ib_uverbs_query_device request{};
  if (auto read = command.read(request); !read) return read;
  return command.respond(describe_device(file));
}

Result<void> query_device_extended(Interpreter& file, Command& command) {
  ib_uverbs_ex_query_device request{};
  if (auto read = command.read(request); !read) return read;
  if (request.comp_mask || request.reserved) return fail(EINVAL);
  if (command.driver().in().size() || command.driver().out().size) return fail(EINVAL);
  ib_uverbs_ex_query_device_resp out{};
  out.base = describe_device(file);
  out.response_length = command.response_length<ib_uverbs_ex_query_device_resp>();
  out.odp_caps.general_caps = capabilities::odp_general;
  out.odp_caps.per_transport_caps.rc_odp_caps = capabilities::odp_rc;
  out.odp_caps.per_transport_caps.uc_odp_caps = capabilities::odp_uc;
  out.odp_caps.per_transport_caps.ud_odp_caps = capabilities::odp_ud;
  out.device_cap_flags_ex = capabilities::device_flags;
  return command.respond(out);
}

Result<void> query_port(Interpreter& file, Attributes& attributes) {
  auto number = attributes.constant(UVERBS_ATTR_QUERY_PORT_PORT_NUM, 255);
  if (!number) return fail(number.error());
  const ipc::Port* port = file.find_port(*number);
  if (!port) return fail(EINVAL);
  PortAnswer answer{};
  answer.legacy = describe_port(*port);
  answer.active_speed_ex = port->active_speed;
  return attributes.write_or_zero(UVERBS_ATTR_QUERY_PORT_RESP, answer);
}

Result<void> query_port(Interpreter& file, Command& command) {
  ib_uverbs_query_port request{};
  if (auto read = command.read(request); !read) return read;
  const ipc::Port* port = file.find_port(request.port_num);
  if (!port) return fail(EINVAL);
  return command.respond(describe_port(*port));
}

namespace {

// The entries of all ports, in a row. EINVAL: more than there is room for.
Result<u64> collect_gids(Interpreter& file, std::span<ib_uverbs_gid_entry> into) {
  u64 count = 0;
  for (u32 number = 1; number <= file.device().port_count; ++number) {
    const ipc::Port* port = file.find_port(number);
    if (!port) break;
    for (u32 index = 0; index < table_length(*port); ++index) {
      if (!is_set(port->gids[index])) continue;
      if (count == into.size()) return fail(EINVAL);
      into[count++] = describe_gid(*port, index);
    }
  }
  return count;
}

// The program's entries may be shorter or longer than ours.
Result<void> write_entries(Attributes& attributes, std::span<const ib_uverbs_gid_entry> entries, u64 entry_size) {
  u64 at = attributes.output(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES).address;
  for (const ib_uverbs_gid_entry& entry : entries) {
    Output slot{at, static_cast<u32>(entry_size)};
    if (auto done = slot.copy_or_zero(attributes.memory(), &entry, sizeof entry); !done) return done;
    at += entry_size;
  }
  return attributes.mark_written(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
}

}  // namespace

Result<void> query_gid_table(Interpreter& file, Attributes& attributes) {
  auto entry_size = attributes.constant(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, 0xffff);
  if (!entry_size) return fail(entry_size.error());
  u32 room = attributes.size(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
  if (*entry_size == 0 || room == 0 || room % *entry_size != 0) return fail(EINVAL);
  std::vector<ib_uverbs_gid_entry> entries(room / *entry_size);
  auto count = collect_gids(file, entries);
  if (!count) return fail(count.error());
  if (auto done = write_entries(attributes, std::span(entries).first(*count), *entry_size); !done) return done;
  return attributes.write(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, *count);
}

Result<void> query_gid_entry(Interpreter& file, Attributes& attributes) {
  auto flags = attributes.flags(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 0);
  if (!flags) return fail(flags.error());
  auto index = attributes.constant(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, 0xffff'ffffU);
  if (!index) return fail(index.error());
  auto number = attributes.constant(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, 0xffff'ffffU);
  if (!number) return fail(number.error());
  const ipc::Port* port = file.find_port(*number);
  if (!port || *index >= table_length(*port)) return fail(EINVAL);
  if (!is_set(port->gids[*index])) return fail(ENODATA);
  return attributes.write_or_zero(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY,
                                  describe_gid(*port, static_cast<u32>(*index)));
}

}  // namespace softib::kernel::methods
