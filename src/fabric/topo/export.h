// A fabric in the forms of other programs.
#pragma once

#include <string>

#include "fabric/fabric.h"

namespace softib::fabric::topo {

// As ibnetdiscover prints it, for a complete fabric: what has no cable is in it too. Also what ibsim reads.
[[nodiscard]] std::string to_ibnetdiscover(const Fabric& fabric);

}  // namespace softib::fabric::topo
