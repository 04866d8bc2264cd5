// What tools look for in sysfs of an interface over InfiniBand, and a TUN device lacks: which HCA and port it belongs
// to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hosts/address_report.h"
#include "hosts/place.h"

namespace softib::hosts {

// The interface's file `mode`: how softib-ipoib was told to serve it.
[[nodiscard]] std::string_view mode_of(std::string_view interface);

class InterfaceFiles {
 public:
  InterfaceFiles(const std::string& folder, const PlaceSpec& spec);

  // In the host's network and mounts, once the HCAs' files are there: /sys/class/net/ib0 gets `device`, `dev_id`,
  // `dev_port` and `mode`, and its HCA's device a folder `net` that names it. To be called again when interfaces come
  // and go, for what one has ends with it.
  void look() const;

 private:
  struct Wanted {
    PortInterface port;
    std::string mode;
  };
  void look_at(const Wanted& wanted) const;
  // False while it has no files yet, or can't have any.
  [[nodiscard]] bool give(const Wanted& wanted, const std::string& hca) const;

  std::string tree_;  // the host's, as softibd writes it
  std::vector<Wanted> wanted_;
};

}  // namespace softib::hosts
