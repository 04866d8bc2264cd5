#include "fabric/interfaces.h"

#include <fmt/format.h>

#include "fabric/addresses.h"

namespace softib::fabric {

std::vector<std::string> ipoib_interfaces(const Fabric& fabric, u32 host) {
  std::vector<std::string> interfaces;
  if (fabric.link_layer != LinkLayer::infiniband) return interfaces;
  std::string kind = fabric.ipoib.mode == IpoibMode::connected ? ",mode=connected" : "";
  if (fabric.ipoib.mtu) kind += fmt::format(",mtu={}", fabric.ipoib.mtu);
  u32 rail = 0;
  for (const Hca& hca : fabric.hosts[host].hcas) {
    for (const Port& port : hca.ports) {
      interfaces.push_back(fmt::format("ib{}={}/{}{},address={}/{},address={}/{}", rail, hca.name, port.number, kind,
                                       ipv4_text(port.address), network_prefix, ipv6_text(port_address6(host, rail)),
                                       network_prefix6));
      ++rail;
    }
  }
  return interfaces;
}

}  // namespace softib::fabric
