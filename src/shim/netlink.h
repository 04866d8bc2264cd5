// RDMA netlink (the kernel's nldev): requests in, datagrams of answers out. No sockets in here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace softib::shim {

struct NetlinkPort {
  u32 number = 0;
  bool infiniband = true;
  u64 capabilities = 0;
  std::optional<u64> subnet_prefix;
  u32 lid = 0;
  u32 sm_lid = 0;
  u8 lmc = 0;
  u8 state = 0;
  u8 phys_state = 0;
  std::string net_device;
  u32 net_device_index = 0;  // 0: none that exists
};

struct NetlinkDevice {
  u32 index = 0;
  std::string name;
  std::string firmware;
  u64 node_guid = 0;
  u64 system_guid = 0;
  u8 node_type = 0;
  std::vector<NetlinkPort> ports;
  // the character device
  std::string uverbs_name;
  u32 major = 0;
  u32 minor = 0;
  u64 uverbs_abi = 0;
};

// One datagram from the program, which may hold several requests. `port_id` is the address of the program's socket.
// Each string is one datagram to the program.
std::vector<std::string> answer_netlink(std::span<const u8> request, u32 port_id,
                                        const std::vector<NetlinkDevice>& devices);

}  // namespace softib::shim
