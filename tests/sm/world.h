// Fabrics of all sizes with subnet managers on them, over the real network and a clock that only moves when told.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "net/network.h"
#include "sm/subnet_manager.h"
#include "wire/rmpp_exchange.h"

namespace softib::sm::test {

inline constexpr u64 second = 1'000'000'000;

// Two or three tiers; hosts at each leaf.
struct TreeShape {
  u32 leaves = 2;
  u32 hosts = 2;   // at each leaf
  u32 spines = 2;  // above the leaves of each pod
  u32 pods = 1;
  u32 cores = 0;  // above each spine number; 0: two tiers
  u32 parallel = 1;
};
[[nodiscard]] fabric::Fabric tree(const TreeShape& shape);
// Each switch cabled to the next one, and the last to the first.
[[nodiscard]] fabric::Fabric ring(u32 switches, u32 hosts);
[[nodiscard]] fabric::Fabric one_switch(u32 hosts);
[[nodiscard]] fabric::Fabric back_to_back();
[[nodiscard]] fabric::Fabric two_rails();  // three hosts with two ports, one at each of two switches
[[nodiscard]] fabric::Fabric random_mesh(u32 switches, u32 extra_cables, u32 hosts, u32 seed);

using net::PortRef;

// A client of subnet administration at one port, with its own RMPP.
class Client;

class World : private net::Observer {
 public:
  explicit World(const fabric::Fabric& fabric);
  ~World() override;

  SubnetManager& manage_at(PortRef port, const Options& options = {});
  SubnetManager& manage(u32 host, const Options& options = {}) { return manage_at(port_of_host(host), options); }
  void dismiss(u32 host);  // the manager dies
  [[nodiscard]] bool managed(u32 host) const { return seats_.contains(port_of_host(host)); }
  SubnetManager& manager(u32 host) { return *seats_.at(port_of_host(host)).manager; }

  // Runs everything that has its time.
  void run_for(u64 ns);
  void settle() { run_for(second); }
  [[nodiscard]] u64 now() const { return now_; }

  net::Network& net() { return *net_; }
  [[nodiscard]] PortRef port_of_host(u32 host) const { return {net_->hca_node(host, 0), 1}; }
  [[nodiscard]] PortRef port_of_switch(u32 index) const { return {net_->switch_node(index), 0}; }
  [[nodiscard]] u16 lid(PortRef port) const { return net_->port(port).lid; }
  [[nodiscard]] u32 hosts() const { return hosts_; }
  [[nodiscard]] const std::vector<std::string>& log() const { return log_; }
  [[nodiscard]] bool logged(std::string_view part) const;
  void attach(PortRef port, Client* client) { clients_[port] = client; }
  void send(PortRef from, const wire::Packet& packet) { net_->send(from, packet); }

  u64 smps_sent = 0;    // by managers
  u64 tables_sent = 0;  // of them, blocks of linear forwarding tables

 private:
  struct Seat final : Mouth {
    World* world = nullptr;
    PortRef port;
    std::unique_ptr<SubnetManager> manager;
    void send(const wire::Packet& packet) override;
    void log(std::string_view line) override;
  };
  void received(PortRef at, const wire::Packet& packet) override;
  void port_changed(PortRef) override {}
  void routes_changed(u32) override {}

  u32 hosts_;
  std::unique_ptr<net::Network> net_;
  std::map<PortRef, Seat> seats_;
  std::map<PortRef, Client*> clients_;
  std::vector<std::string> log_;
  u64 now_ = second;
};

// Checks over the whole fabric.
void expect_all_active(World& world);
void expect_all_reachable(World& world);
[[nodiscard]] std::map<u64, u16> lids_by_guid(World& world);
// Whether channels of packets between hosts can wait for each other in a circle.
[[nodiscard]] bool has_credit_loop(World& world);

struct SaAnswer {
  bool came = false;
  u16 status = 0;
  u32 record_size = 0;
  std::vector<u8> data;
  [[nodiscard]] u32 count() const { return record_size == 0 ? 0 : static_cast<u32>(data.size() / record_size); }
  [[nodiscard]] std::span<const u8> record(u32 i) const {
    return std::span(data).subspan(std::size_t{i} * record_size, record_size);
  }
};

class Client : private wire::rmpp::Exchange::Owner {
 public:
  Client(World& world, PortRef port) : world_(world), port_(port), exchange_(*this) { world.attach(port, this); }
  ~Client() override { world_.attach(port_, nullptr); }

  struct Ask {
    wire::Method method = wire::Method::get_table;
    u16 attribute = 0;
    u64 mask = 0;
    std::vector<u8> data{};
    u64 key = 0;
    u32 modifier = 0;
  };
  SaAnswer ask(const Ask& ask);
  void received(const wire::Packet& packet);

  u32 lose_every = 0;                   // of the segments that come, to try what RMPP does
  std::vector<wire::Packet> reports{};  // answered at once
  bool answer_reports = true;

 private:
  void transmit(const wire::rmpp::Peer& peer, const wire::Mad& mad) override;
  void arrived(const wire::rmpp::Peer& peer, wire::rmpp::Message message) override;
  void sent(const wire::rmpp::Peer&, wire::rmpp::Outcome, wire::rmpp::Status) override {}
  void forgotten(const wire::rmpp::Peer&) override {}
  void take(const wire::Mad& head, std::vector<u8> data);

  World& world_;
  PortRef port_;
  wire::rmpp::Exchange exchange_;
  u64 transaction_ = 0x77'0000'0000;
  u32 segments_ = 0;
  SaAnswer answer_;
};

}  // namespace softib::sm::test
