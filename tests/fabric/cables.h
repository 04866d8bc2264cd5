// Cables as text: "alpha/mlx5_0/1 - sw0/1 4XHDR".
#pragma once

#include <string>
#include <vector>

#include "fabric/fabric.h"

namespace softib::test {

// In the order of the fabric.
inline std::vector<std::string> cables_of(const fabric::Fabric& fabric) {
  std::vector<std::string> result;
  for (const fabric::Cable& cable : fabric.cables) {
    const fabric::LinkRate rate = link_rate(fabric, cable);
    result.push_back(to_string(fabric, cable.a) + " - " + to_string(fabric, cable.b) + " " + name_of(rate.width) +
                     std::string(name_of(rate.speed)));
  }
  return result;
}

}  // namespace softib::test
