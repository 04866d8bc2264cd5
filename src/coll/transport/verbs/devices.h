// The HCAs of this rank: which are there, which of their ports are used and why the others aren't.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "coll/environment.h"
#include "coll/transport/verbs/choice.h"
#include "coll/transport/verbs/resources.h"

namespace softib::coll::verbs {

// What all queue pairs of a communicator on one HCA share.
struct Device {
  std::string name;
  ContextOwner context;
  DomainOwner domain;
  ChannelOwner channel;
  QueueOwner completions;
  ibv_device_attr limits{};
  bool on_demand = false;  // RC queue pairs read and write memory that nothing holds
};

struct Port {
  std::string name;  // "mlx5_0:1"
  u32 device = 0;    // in Devices::all
  u8 number = 1;
  LinkLayer layer = LinkLayer::infiniband;
  GidEntry gid;
  u16 lid = 0;
  u32 mtu = 0;          // bytes
  double gigabits = 0;  // data rate of the link per second
  std::string trouble;  // what the HCA told of it since: "port down"
};

struct Devices {
  std::vector<Device> all;
  std::vector<Port> ports;           // in the order of SOFTIB_IB_HCA, else of the system
  std::vector<std::string> refused;  // "mlx5_1:1: the port is DOWN"

  // Opens what the environment allows. Empty `ports` where nothing can be used.
  [[nodiscard]] static Devices open(const Environment& environment);

  // "[0]mlx5_0:1/IB [1]mlx5_1:1/IB", as NCCL writes it.
  [[nodiscard]] std::string names() const;
  // Why there are no ports, with a remedy where one is known.
  [[nodiscard]] std::string why_none() const;
};

// The completion queue and channel. False with errno set.
[[nodiscard]] bool make_queue(Device& device, u32 entries);

}  // namespace softib::coll::verbs
