// What RDMA netlink tells about devices, from the sysfs tree of a host.
#pragma once

#include <string>
#include <vector>

#include "shim/netlink.h"

namespace softib::shim {

// `sys` is the tree's sys folder. In the order of the uverbs numbers, which are also the devices' indices.
std::vector<NetlinkDevice> read_devices(const std::string& sys);

}  // namespace softib::shim
