// One host's part of rdma_cm: its port numbers and its connections.
#pragma once

#include "daemon/rdma_cm/service.h"

namespace softib::daemon {

struct RdmaCm::Host final : cm::Manager::Outside {
  Host(RdmaCm& service, u32 host_index, u32 first_id) : owner(service), index(host_index), manager(*this, first_id) {}

  void send(u32 port, const wire::Packet& packet) override { owner.outside_.send(port, packet); }
  void happened(const cm::Event& event) override { owner.happened(*this, event); }
  [[nodiscard]] u64 ca_guid(u32 port) const override {
    return owner.segment_.devices[owner.port(port).device % ipc::max_devices].node_guid;
  }

  RdmaCm& owner;
  u32 index;
  cm::Manager manager;
  PortSpaces spaces;
  std::unordered_map<u32, u32> id_of_connection;  // handles by the protocol's ids
  struct Listening {
    u32 connection;
    u32 users;
  };
  std::map<std::pair<u64, u64>, Listening> listening;  // by service id and mask
};

}  // namespace softib::daemon
