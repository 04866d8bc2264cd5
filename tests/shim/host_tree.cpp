#include "shim/host_tree.h"

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace softib::tests {

namespace fs = std::filesystem;

namespace {

struct Device {
  const char* name;
  const char* slot;
  int number;
  const char* guid;
  bool infiniband;
};

constexpr Device devices[] = {
    {"mlx5_0", "0000:01:00.0", 0, "5254:00ff:fe00:0001", true},
    {"mlx5_1", "0000:02:00.0", 1, "5254:00ff:fe00:0002", false},
};

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text << '\n';
  fs::permissions(file, fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
}

void put_port(const fs::path& port, const Device& device) {
  put(port / "lid", device.infiniband ? "0x7" : "0x0");
  put(port / "lid_mask_count", "0");
  put(port / "sm_lid", "0x1");
  put(port / "state", "4: ACTIVE");
  put(port / "phys_state", "5: LinkUp");
  put(port / "rate", "100 Gb/sec (4X EDR)");
  put(port / "link_layer", device.infiniband ? "InfiniBand" : "Ethernet");
  put(port / "cap_mask", "0x02514868");
  put(port / "gids/0", std::string("fe80:0000:0000:0000:") + device.guid);
  put(port / "pkeys/0", "0xffff");
  put(port / "gid_attrs/types/0", "IB/RoCE v1");
}

void put_device(const fs::path& root, const Device& device) {
  fs::path pci = fs::path("sys/devices/pci0000:00") / device.slot;
  fs::path hca = root / pci / "infiniband" / device.name;
  std::string uverbs_name = "uverbs" + std::to_string(device.number);
  fs::path uverbs = root / pci / "infiniband_verbs" / uverbs_name;
  put(hca / "node_guid", device.guid);
  put(hca / "sys_image_guid", device.guid);
  put(hca / "node_type", "1: CA");
  put(hca / "fw_ver", "16.35.2000");
  put(hca / "node_desc", "host0 HCA");
  put_port(hca / "ports/1", device);
  put(root / pci / "vendor", "0x15b3");
  put(uverbs / "dev", "231:" + std::to_string(192 + device.number));
  put(uverbs / "ibdev", device.name);
  put(uverbs / "abi_version", "2");
  for (const fs::path& folder : {hca, uverbs})
    fs::create_directory_symlink(fs::path("../../../") / device.slot, folder / "device");
  fs::create_directory_symlink(fs::path("../..") / pci.lexically_relative("sys") / "infiniband" / device.name,
                               root / "sys/class/infiniband" / device.name);
  fs::create_directory_symlink(fs::path("../..") / pci.lexically_relative("sys") / "infiniband_verbs" / uverbs_name,
                               root / "sys/class/infiniband_verbs" / uverbs_name);
  std::ofstream(root / "dev/infiniband" / uverbs_name);
}

}  // namespace

HostTree::HostTree() {
  std::string pattern = (fs::temp_directory_path() / "softib-shim-test-XXXXXX").string();
  if (!::mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp failed");
  base_ = fs::canonical(pattern);
  fs::path top = root();
  for (const char* folder : {"sys/class/infiniband", "sys/class/infiniband_verbs", "dev/infiniband"})
    fs::create_directories(top / folder);
  put(top / "sys/class/infiniband_verbs/abi_version", "6");
  for (const Device& device : devices) put_device(top, device);
}

HostTree::~HostTree() {
  std::error_code ignored;
  fs::remove_all(base_, ignored);
}

}  // namespace softib::tests
