#include "fabric/sysfs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <system_error>

#include "fabric/runtime.h"
#include "ipc/port_counters.h"

namespace softib::fabric {

namespace {

constexpr u32 first_bus = 0x10;  // PCI bus of a host's first HCA
constexpr u32 misc_major = 10;   // of the class that rdma_cm is a device of
constexpr u32 rdma_cm_minor = 58;
constexpr u32 uverbs_major = 231;
constexpr u32 uverbs_first_minor = 192;
constexpr mode_t read_only = 0444;
constexpr mode_t device_mode = 0666;

// Makes folders, files and links below one root and remembers the first failure.
class TreeWriter {
 public:
  explicit TreeWriter(std::string root) : root_(std::move(root)) {}

  void folder(const std::string& path) {
    if (error_ || ::mkdir(at(path).c_str(), 0755) == 0 || errno == EEXIST) return;
    size_t slash = path.rfind('/');
    if (errno != ENOENT || slash == std::string::npos) {
      error_ = errno;
      return;
    }
    folder(path.substr(0, slash));
    if (!error_ && ::mkdir(at(path).c_str(), 0755) < 0 && errno != EEXIST) error_ = errno;
  }

  // Contents without the newline that every sysfs file ends with.
  void file(const std::string& path, std::string_view text, mode_t mode = read_only) {
    raw_file(path, std::string(text) + "\n", mode);
  }

  void raw_file(const std::string& path, std::string_view text, mode_t mode = read_only) {
    if (error_) return;
    Fd fd(::openat(AT_FDCWD, at(path).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
    if (!fd)
      error_ = errno;
    else if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      error_ = errno ? errno : ENOSPC;
  }

  void link(const std::string& path, const std::string& target) {
    if (error_) return;
    ::unlink(at(path).c_str());
    if (::symlink(target.c_str(), at(path).c_str()) < 0) error_ = errno;
  }

  [[nodiscard]] Result<void> done() const { return error_ ? Result<void>(fail(error_)) : Result<void>(); }

 private:
  [[nodiscard]] std::string at(const std::string& path) const { return root_ + "/" + path; }

  std::string root_;
  int error_ = 0;
};

// -- values

std::string_view name_of(PhysState state) {
  constexpr std::array<std::string_view, 7> names{"No state change",           "Sleep",  "Polling",          "Disabled",
                                                  "PortConfigurationTraining", "LinkUp", "LinkErrorRecovery"};
  auto index = static_cast<size_t>(state);
  return index < names.size() ? names[index] : "<unknown>";
}

std::string_view name_of(GidType type) { return type == GidType::roce_v2 ? "RoCE v2" : "IB/RoCE v1"; }

// What the PCIe slot of a card must give for its port not to wait for it.
std::string_view pci_speed(Speed speed) {
  if (speed >= Speed::xdr) return "64.0 GT/s PCIe";
  if (speed >= Speed::ndr) return "32.0 GT/s PCIe";
  if (speed >= Speed::hdr) return "16.0 GT/s PCIe";
  return "8.0 GT/s PCIe";
}

std::string pci_address(u32 hca) { return fmt::format("0000:{:02x}:00.0", first_bus + hca); }

struct CpuSet {
  std::string mask;  // "00000000,ffffffff"
  std::string list;  // "0-31"
};

CpuSet all_cpus() {
  // Not hardware_concurrency(): softibd may have been started on a part of the CPUs.
  auto count = static_cast<u32>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  CpuSet set;
  for (u32 word = (count + 31) / 32; word-- > 0;) {
    u32 here = std::min(32U, count - word * 32);
    set.mask += fmt::format("{:08x}{}", here == 32 ? ~0U : (1U << here) - 1, word ? "," : "");
  }
  set.list = count == 1 ? "0" : fmt::format("0-{}", count - 1);
  return set;
}

// -- one port

using Files = std::vector<std::pair<std::string, std::string>>;  // name below the port, contents

// As many entries as the port's tables have: what ibv_query_port says of their length.
void gid_files(const PortStatus& status, std::string_view net_device, Files& files) {
  for (u32 i = 0; i < status.gids.size(); ++i) {
    const auto& [gid, type] = status.gids[i];
    bool used = gid != Gid{};
    files.emplace_back(fmt::format("gids/{}", i), gid_text(gid) + "\n");
    // The kernel refuses to read these where there is no entry, or no net device; an empty file is the nearest to it.
    files.emplace_back(fmt::format("gid_attrs/types/{}", i), used ? std::string(name_of(type)) + "\n" : "");
    bool ethernet = used && type != GidType::ib;
    files.emplace_back(fmt::format("gid_attrs/ndevs/{}", i), ethernet ? std::string(net_device) + "\n" : "");
  }
}

// Everything that update_port() may change.
Files status_files(const PortStatus& status, std::string_view net_device) {
  Files files{
      {"state", fmt::format("{}: {}\n", static_cast<u32>(status.state), fabric::name_of(status.state))},
      {"phys_state", fmt::format("{}: {}\n", static_cast<u32>(status.phys_state), name_of(status.phys_state))},
      {"lid", fmt::format("0x{:x}\n", status.lid)},
      {"lid_mask_count", fmt::format("{}\n", status.lmc)},
      {"sm_lid", fmt::format("0x{:x}\n", status.sm_lid)},
      {"sm_sl", fmt::format("{}\n", status.sm_sl)},
      {"cap_mask", fmt::format("0x{:08x}\n", status.capabilities)},
      {"rate", sysfs_rate(status.speed, status.width) + "\n"},
  };
  for (u32 i = 0; i < status.pkeys.size(); ++i)
    files.emplace_back(fmt::format("pkeys/{}", i), fmt::format("0x{:04x}\n", status.pkeys[i]));
  gid_files(status, net_device, files);
  return files;
}

// They are read through the preload library, which asks for what they stand at: these only hold their places.
Files counter_files() {
  Files files;
  for (std::string_view name : ipc::port_counter_names) files.emplace_back(fmt::format("counters/{}", name), "0\n");
  return files;
}

// Of the hardware counters none that this fabric would have to count: those of losses and retransmissions.
Files hardware_counter_files() { return {{"hw_counters/lifespan", "10\n"}}; }

void write_port(TreeWriter& tree, const Fabric& fabric, PortPlace place, const PortStatus& status) {
  std::string path = port_path(fabric, place) + "/";
  for (const char* folder : {"gids", "gid_attrs/types", "gid_attrs/ndevs", "pkeys", "counters", "hw_counters"})
    tree.folder(path + folder);
  tree.file(path + "link_layer", to_string(fabric.link_layer));
  for (const Files& files :
       {status_files(status, net_device_name(fabric, place)), counter_files(), hardware_counter_files()})
    for (const auto& [name, text] : files) tree.raw_file(path + name, text);
}

// -- one device

std::string host_root(const Fabric& fabric, u32 host) { return "hosts/" + fabric.hosts[host].name; }

std::string pci_path(const Fabric& fabric, u32 host, u32 hca) {
  return fmt::format("{}/sys/devices/pci0000:00/{}", host_root(fabric, host), pci_address(hca));
}

void write_pci(TreeWriter& tree, const Fabric& fabric, u32 host, u32 index, const CpuSet& cpus) {
  const Hca& hca = fabric.hosts[host].hcas[index];
  const Model& model = *find_model(hca.model);
  std::string path = pci_path(fabric, host, index) + "/";
  tree.folder(path + "infiniband");
  tree.folder(path + "infiniband_verbs");
  for (const char* name : {"vendor", "subsystem_vendor"})
    tree.file(path + name, fmt::format("0x{:04x}", model.pci_vendor));
  for (const char* name : {"device", "subsystem_device"})
    tree.file(path + name, fmt::format("0x{:04x}", model.pci_device));
  tree.file(path + "class", fabric.link_layer == LinkLayer::ethernet ? "0x020000" : "0x020700");
  tree.file(path + "revision", "0x00");
  tree.file(path + "enable", "1");
  tree.file(path + "irq", "0");
  tree.file(path + "numa_node", "-1");  // memory is the same distance from every CPU
  tree.file(path + "local_cpus", cpus.mask);
  tree.file(path + "local_cpulist", cpus.list);
  for (const char* name : {"max_link_speed", "current_link_speed"})
    tree.file(path + name, pci_speed(hca.ports[0].speed));
  for (const char* name : {"max_link_width", "current_link_width"}) tree.file(path + name, "16");
  // By its first line tools tell whether an interface and an HCA are one device: where a BAR of 32 MiB would lie.
  constexpr u64 bar_base = 0x380000000000, bar_size = 0x2000000, memory_64_prefetchable = 0x14220c;
  const u64 bar = bar_base + index * bar_size;
  tree.file(path + "resource",
            fmt::format("0x{:016x} 0x{:016x} 0x{:016x}", bar, bar + bar_size - 1, memory_64_prefetchable));
  tree.file(path + "uevent", fmt::format("PCI_CLASS={}\nPCI_ID={:04X}:{:04X}\nPCI_SLOT_NAME={}",
                                         fabric.link_layer == LinkLayer::ethernet ? "20000" : "20700", model.pci_vendor,
                                         model.pci_device, pci_address(index)));
}

void write_infiniband(TreeWriter& tree, const Fabric& fabric, u32 host, u32 index, std::span<const PortStatus> ports) {
  const Host& owner = fabric.hosts[host];
  const Hca& hca = owner.hcas[index];
  const Model& model = *find_model(hca.model);
  std::string path = fmt::format("{}/infiniband/{}/", pci_path(fabric, host, index), hca.name);
  tree.folder(path + "ports");
  tree.file(path + "node_guid", guid_text(hca.node_guid));
  tree.file(path + "sys_image_guid", guid_text(hca.system_guid));
  tree.file(path + "node_type", "1: CA");
  tree.file(path + "node_desc", node_description(owner, hca), 0644);
  tree.file(path + "fw_ver", model.firmware);
  tree.file(path + "hca_type", model.hca_type);
  tree.file(path + "hw_rev", fmt::format("{:x}", model.hardware_version));
  tree.file(path + "board_id", model.board_id);
  tree.link(path + "device", "../../../" + pci_address(index));
  tree.link(path + "subsystem", "../../../../../class/infiniband");
  for (u32 p = 0; p < hca.ports.size(); ++p) write_port(tree, fabric, {host, index, p}, ports[p]);
}

void write_uverbs(TreeWriter& tree, const Fabric& fabric, u32 host, u32 index) {
  std::string node = fmt::format("uverbs{}", index);
  std::string path = fmt::format("{}/infiniband_verbs/{}/", pci_path(fabric, host, index), node);
  std::string number = fmt::format("{}:{}", uverbs_major, uverbs_first_minor + index);
  tree.folder(path.substr(0, path.size() - 1));
  tree.file(path + "dev", number);
  tree.file(path + "ibdev", fabric.hosts[host].hcas[index].name);
  tree.file(path + "abi_version", "2");  // of the rxe provider
  tree.file(path + "uevent",
            fmt::format("MAJOR={}\nMINOR={}\nDEVNAME=infiniband/{}", uverbs_major, uverbs_first_minor + index, node));
  tree.link(path + "device", "../../../" + pci_address(index));
  tree.link(path + "subsystem", "../../../../../class/infiniband_verbs");
  tree.raw_file(host_root(fabric, host) + "/dev/infiniband/" + node, "", device_mode);
}

// umadN and issmN for each port that has a subnet manager to talk to.
void write_mad_node(TreeWriter& tree, const Fabric& fabric, PortPlace place, std::string_view kind, u32 minor) {
  const Hca& hca = fabric.hosts[place.host].hcas[place.hca];
  const u32 number = port_number_on_host(fabric, place);
  const std::string node = fmt::format("{}{}", kind, number);
  const std::string path = fmt::format("{}/infiniband_mad/{}/", pci_path(fabric, place.host, place.hca), node);
  const std::string root = host_root(fabric, place.host);
  tree.folder(path.substr(0, path.size() - 1));
  tree.file(path + "dev", fmt::format("{}:{}", uverbs_major, minor + number));
  tree.file(path + "ibdev", hca.name);
  tree.file(path + "port", fmt::format("{}", hca.ports[place.port].number));
  tree.file(path + "uevent",
            fmt::format("MAJOR={}\nMINOR={}\nDEVNAME=infiniband/{}", uverbs_major, minor + number, node));
  tree.link(path + "device", "../../../" + pci_address(place.hca));
  tree.link(path + "subsystem", "../../../../../class/infiniband_mad");
  tree.link(root + "/sys/class/infiniband_mad/" + node,
            "../../devices/pci0000:00/" + pci_address(place.hca) + "/infiniband_mad/" + node);
  tree.raw_file(root + "/dev/infiniband/" + node, "", device_mode);
}

void write_mad_nodes(TreeWriter& tree, const Fabric& fabric, u32 host, u32 index) {
  if (fabric.link_layer == LinkLayer::ethernet) return;
  for (u32 port = 0; port < fabric.hosts[host].hcas[index].ports.size(); ++port) {
    write_mad_node(tree, fabric, {host, index, port}, "umad", 0);
    write_mad_node(tree, fabric, {host, index, port}, "issm", 64);
  }
}

void write_class_links(TreeWriter& tree, const Fabric& fabric, u32 host, u32 index) {
  std::string sys_class = host_root(fabric, host) + "/sys/class/";
  std::string device = "../../devices/pci0000:00/" + pci_address(index);
  const std::string& name = fabric.hosts[host].hcas[index].name;
  tree.link(sys_class + "infiniband/" + name, device + "/infiniband/" + name);
  std::string node = fmt::format("uverbs{}", index);
  tree.link(sys_class + "infiniband_verbs/" + node, device + "/infiniband_verbs/" + node);
}

}  // namespace

std::string_view name_of(ipc::PortState state) {
  switch (state) {
    case ipc::PortState::down:
      return "DOWN";
    case ipc::PortState::init:
      return "INIT";
    case ipc::PortState::armed:
      return "ARMED";
    case ipc::PortState::active:
      return "ACTIVE";
  }
  return state == ipc::PortState{} ? "NOP" : "UNKNOWN";  // the kernel's words
}

std::string guid_text(u64 guid) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xffff, guid >> 16 & 0xffff,
                     guid & 0xffff);
}

std::string gid_text(const Gid& gid) {
  std::string text;
  for (u32 i = 0; i < 16; i += 2) text += fmt::format("{}{:02x}{:02x}", i ? ":" : "", gid.raw[i], gid.raw[i + 1]);
  return text;
}

std::string port_path(const Fabric& fabric, PortPlace place) {
  const Hca& hca = fabric.hosts[place.host].hcas[place.hca];
  return fmt::format("{}/infiniband/{}/ports/{}", pci_path(fabric, place.host, place.hca), hca.name,
                     hca.ports[place.port].number);
}

std::vector<std::string> device_entries(const Fabric& fabric, u32 host, u32 hca) {
  const std::string root = host_root(fabric, host);
  const std::string node = fmt::format("uverbs{}", hca);
  std::vector<std::string> entries{root + "/sys/class/infiniband/" + fabric.hosts[host].hcas[hca].name,
                                   root + "/sys/class/infiniband_verbs/" + node, root + "/dev/infiniband/" + node};
  if (fabric.link_layer == LinkLayer::ethernet) return entries;
  for (u32 port = 0; port < fabric.hosts[host].hcas[hca].ports.size(); ++port)
    for (const char* kind : {"umad", "issm"}) {
      const std::string name = fmt::format("{}{}", kind, port_number_on_host(fabric, {host, hca, port}));
      entries.push_back(root + "/sys/class/infiniband_mad/" + name);
      entries.push_back(root + "/dev/infiniband/" + name);
    }
  return entries;
}

u32 port_number_on_host(const Fabric& fabric, PortPlace place) {
  u32 number = place.port;
  for (u32 d = 0; d < place.hca; ++d) number += static_cast<u32>(fabric.hosts[place.host].hcas[d].ports.size());
  return number;
}

std::string net_device_name(const Fabric& fabric, PortPlace place) {
  return fmt::format("roce{}", port_number_on_host(fabric, place));
}

PortStatus initial_status(const Fabric& fabric, const Port& port) {
  PortStatus status;
  bool ethernet = fabric.link_layer == LinkLayer::ethernet;
  bool managed = ethernet || fabric.sm == SubnetManager::builtin;
  if (port.cabled) {
    status.state = managed ? ipc::PortState::active : ipc::PortState::init;
    status.phys_state = PhysState::link_up;
  } else if (ethernet) {
    status.phys_state = PhysState::disabled;
  }
  status.lid = port.lid;
  status.lmc = port.lmc;
  status.sm_lid = port.sm_lid;
  status.capabilities = IBV_PORT_CM_SUP;
  if (!ethernet)
    status.capabilities |= IBV_PORT_SYS_IMAGE_GUID_SUP | IBV_PORT_EXTENDED_SPEEDS_SUP | IBV_PORT_CLIENT_REG_SUP;
  if (port.lid && port.lid == port.sm_lid) status.capabilities |= IBV_PORT_SM;
  status.speed = port.link_speed;
  status.width = port.link_width;
  status.mtu = port.link_mtu;
  status.pkeys = port.pkeys;
  status.gids = port.gids;
  return status;
}

namespace {

// One for the whole host: a device of class misc, as rdma_ucm registers it.
void write_rdma_cm(TreeWriter& tree, const std::string& root) {
  const std::string path = root + "/sys/class/misc/rdma_cm/";
  tree.folder(root + "/sys/class/misc/rdma_cm");
  tree.file(path + "abi_version", "4");
  tree.file(path + "dev", fmt::format("{}:{}", misc_major, rdma_cm_minor));
  tree.file(path + "uevent",
            fmt::format("MAJOR={}\nMINOR={}\nDEVNAME=infiniband/rdma_cm\nDEVMODE=0666", misc_major, rdma_cm_minor));
  tree.raw_file(root + "/dev/infiniband/rdma_cm", "", device_mode);
}

void write_host(TreeWriter& tree, const Fabric& fabric, u32 host, std::span<const PortStatus> ports) {
  std::string root = host_root(fabric, host);
  for (const char* folder :
       {"/sys/class/infiniband", "/sys/class/infiniband_verbs", "/sys/class/infiniband_mad", "/dev/infiniband"})
    tree.folder(root + folder);
  tree.file(root + "/sys/class/infiniband_verbs/abi_version", "6");
  tree.file(root + "/sys/class/infiniband_mad/abi_version", "5");  // ibstat wants it, also where no umad device is
  write_rdma_cm(tree, root);
  CpuSet cpus = all_cpus();
  for (u32 d = 0; d < fabric.hosts[host].hcas.size(); ++d) {
    const size_t count = fabric.hosts[host].hcas[d].ports.size();
    write_pci(tree, fabric, host, d, cpus);
    write_infiniband(tree, fabric, host, d, ports.first(count));
    write_uverbs(tree, fabric, host, d);
    write_mad_nodes(tree, fabric, host, d);
    write_class_links(tree, fabric, host, d);
    ports = ports.subspan(count);
  }
}

Result<void> put_in_place(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  return fail(errno == ENOTEMPTY ? EEXIST : errno);
}

}  // namespace

Result<void> write_host_tree(const std::string& dir, const Fabric& fabric, u32 host,
                             std::span<const PortStatus> ports) {
  const std::string fresh = dir + "/hosts/.new";  // no host's name begins with a dot
  std::error_code ignored;
  std::filesystem::remove_all(fresh, ignored);  // of a try that failed
  if (::mkdir((dir + "/hosts").c_str(), 0755) < 0 && errno != EEXIST) return fail(errno);
  if (::mkdir(fresh.c_str(), 0755) < 0) return fail(errno);
  TreeWriter tree(fresh);
  write_host(tree, fabric, host, ports);
  auto written = tree.done();
  if (written)
    written = put_in_place(fmt::format("{}/{}", fresh, host_root(fabric, host)),
                           fmt::format("{}/{}", dir, host_root(fabric, host)));
  std::filesystem::remove_all(fresh, ignored);
  return written;
}

namespace {

// The temporary file lies outside the tree, so that nobody who lists a folder meets it.
Result<void> replace_files(const std::string& dir, const std::string& port, const Files& files) {
  std::string fresh = dir + "/sysfs.new";
  for (const auto& [name, text] : files) {
    if (auto written = write_file(fresh, text, read_only); !written) return written;
    if (::rename(fresh.c_str(), fmt::format("{}/{}/{}", dir, port, name).c_str()) < 0) return fail(errno);
  }
  return {};
}

std::map<std::string, std::string> as_map(const Files& files) { return {files.begin(), files.end()}; }

}  // namespace

Result<void> update_port(const std::string& dir, const Fabric& fabric, PortPlace place, const PortStatus& before,
                         const PortStatus& now) {
  std::string net_device = net_device_name(fabric, place);
  std::string port = port_path(fabric, place);
  std::map<std::string, std::string> was = as_map(status_files(before, net_device));
  std::map<std::string, std::string> is = as_map(status_files(now, net_device));
  Files changed;
  for (const auto& [name, text] : is)
    if (auto old = was.find(name); old == was.end() || old->second != text) changed.emplace_back(name, text);
  for (const auto& [name, text] : was)
    if (!is.contains(name)) ::unlink(fmt::format("{}/{}/{}", dir, port, name).c_str());
  return replace_files(dir, port, changed);
}

}  // namespace softib::fabric
