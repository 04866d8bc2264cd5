// A host's sysfs and /dev tree made by hand, as softibd keeps it for the shim: two devices, the first InfiniBand, the
// second Ethernet.
#pragma once

#include <filesystem>
#include <string>

namespace softib::tests {

class HostTree {
 public:
  HostTree();   // <a new temporary folder>/default/hosts/host0
  ~HostTree();  // removes it
  HostTree(const HostTree&) = delete;
  HostTree& operator=(const HostTree&) = delete;

  [[nodiscard]] std::string fabric_dir() const { return (base_ / "default").string(); }
  [[nodiscard]] std::string root() const { return (base_ / "default/hosts/host0").string(); }

 private:
  std::filesystem::path base_;
};

}  // namespace softib::tests
