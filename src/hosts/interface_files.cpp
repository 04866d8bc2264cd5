#include "hosts/interface_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>

#include "fabric/runtime.h"
#include "hosts/mounts.h"

namespace softib::hosts {

namespace {

constexpr std::string_view all_devices = "/sys/devices/";

constexpr mode_t read_only_file = 0444;

bool is_there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// /sys/devices/pci0000:00/0000:10:00.0 of mlx5_0, or nothing.
std::string hca_folder(const std::string& device) {
  char path[PATH_MAX];
  const std::string link = "/sys/class/infiniband/" + device + "/device";
  return ::realpath(link.c_str(), path) && std::string_view(path).starts_with(all_devices) ? path : "";
}

}  // namespace

std::string_view mode_of(std::string_view interface) {
  return interface.find(",mode=connected") == std::string_view::npos ? "datagram" : "connected";
}

InterfaceFiles::InterfaceFiles(const std::string& folder, const PlaceSpec& spec)
    : tree_(fmt::format("{}/hosts/{}", folder, spec.name)) {
  for (const std::string& text : spec.interfaces)
    if (auto port = port_interface(text)) wanted_.push_back({std::move(*port), std::string(mode_of(text))});
}

void InterfaceFiles::look() const {
  for (const Wanted& wanted : wanted_) look_at(wanted);
}

void InterfaceFiles::look_at(const Wanted& wanted) const {
  const std::string hca = hca_folder(wanted.port.device);
  if (hca.empty()) return;
  const std::string names = tree_ + hca + "/net";
  const std::string link = names + "/" + wanted.port.name;
  if (!give(wanted, hca)) {
    ::unlink(link.c_str());
    ::rmdir(names.c_str());  // for the last of them
    return;
  }
  // By its whole path: programs come here by the mounted tree or by the tree itself.
  ::mkdir(names.c_str(), 0755);
  (void)!::symlink(("/sys/class/net/" + wanted.port.name).c_str(), link.c_str());
}

bool InterfaceFiles::give(const Wanted& wanted, const std::string& hca) const {
  const std::string folder = "/sys/devices/virtual/net/" + wanted.port.name;
  if (!is_there(folder)) return false;
  if (is_there(folder + "/device")) return true;
  if (!make_room_in(folder, {"dev_id", "dev_port"})) return false;
  const u32 number = wanted.port.port - 1;
  const std::string target = "../../../" + hca.substr(all_devices.size());
  const bool given = ::symlink(target.c_str(), (folder + "/device").c_str()) == 0 &&
                     fabric::write_file(folder + "/dev_id", fmt::format("0x{:x}\n", number), read_only_file) &&
                     fabric::write_file(folder + "/dev_port", fmt::format("{}\n", number), read_only_file) &&
                     fabric::write_file(folder + "/mode", wanted.mode + "\n", read_only_file);
  // For nobody who writes a mode is heard.
  return close_room_in(folder) && given;
}

}  // namespace softib::hosts
