// How links and nodes differ from the fabric file, as JSON:
//
//   links:  [ { "ends": ["leaf0:1", "host0/mlx5_0:1"], "state": "ACTIVE", "physical": "LinkUp", "width": "4x",
//               "speed": "HDR", "faults": ["ber 1e-10"] } ]          one for each cable, as it is plugged now
//   faults: [ { "what": "leaf0:1 - host0/mlx5_0:1", "fault": "down" } ]    a short list
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "daemon/hca_place.h"
#include "daemon/plane/plane.h"
#include "fabric/fabric.h"
#include "net/network.h"

namespace softib::daemon {

class FaultReport {
 public:
  // What the network alone does not tell.
  struct Known {
    std::vector<net::PortRef> flapping;  // a port of each link that does
    std::set<u32> off;                   // hosts
    std::set<HcaPlace> removed;
  };
  FaultReport(const fabric::Fabric& fabric, const Plane& plane, Known known);

  [[nodiscard]] nlohmann::json links() const;
  [[nodiscard]] nlohmann::json faults() const;

 private:
  using Words = std::vector<std::string>;

  [[nodiscard]] fabric::CableEnd end_at(net::PortRef port) const;
  [[nodiscard]] net::PortRef port_at(const fabric::CableEnd& end) const;
  [[nodiscard]] std::string name_of(net::PortRef port) const;
  [[nodiscard]] Words faults_of(net::PortRef port) const;
  void add_symptoms(net::PortRef port, Words& words) const;
  [[nodiscard]] bool is_flapping(net::PortRef port) const;
  [[nodiscard]] std::vector<net::PortRef> links_now() const;
  void add_links(nlohmann::json& list) const;
  void add_cabling(nlohmann::json& list) const;
  void add_nodes(nlohmann::json& list) const;
  void add_counters(nlohmann::json& list) const;

  const fabric::Fabric& fabric_;
  const Plane& plane_;
  const net::Network& network_;
  Known known_;
  std::vector<fabric::CableEnd> hcas_;  // by node, after the switches
};

}  // namespace softib::daemon
