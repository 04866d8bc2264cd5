// The management plane of a running fabric: the network with its agents, the programs' umad files, and the built-in
// subnet managers, put together. Everything happens within the calls; what it changed for others is asked for after.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/mad/files.h"
#include "daemon/mad/layer.h"
#include "daemon/plane/accounts.h"
#include "daemon/plane/shapes.h"
#include "daemon/routes.h"
#include "fabric/fabric.h"
#include "fabric/sysfs.h"
#include "ipc/port_counters.h"
#include "ipc/segment.h"
#include "net/network.h"
#include "sm/subnet_manager.h"

namespace softib::daemon {

// Who gets what comes to queue pair 1 of hosts' ports before the programs' agents do.
class GeneralServices {
 public:
  virtual ~GeneralServices() = default;
  // False: it is for somebody else.
  virtual bool received(u32 port, const wire::Packet& packet, u64 now) = 0;
};

class Plane final : public Ways, private net::Observer, private MadLayer::Outside {
 public:
  // The ports of the segment are those of the fabric, host by host, in order; their records are kept up to date.
  Plane(const fabric::Fabric& fabric, ipc::Segment& segment, Watcher& watcher);
  ~Plane() override;

  // -- umad files. `port` is an index of the segment's.
  struct Opened {
    u32 file;
    Fd socket;  // the program's end
  };
  Result<Opened> open_umad(u32 port);
  // EAGAIN: somebody has it open.
  Result<Opened> open_issm(u32 port);
  Result<u32> add_agent(u32 file, const Registration& wanted) { return layer_.add_agent(file, wanted); }
  Result<void> remove_agent(u32 file, u32 agent) { return layer_.remove_agent(file, agent); }
  // The socket of a file can be read, or has been closed at its other end.
  void umad_readable(u32 file, u64 now);
  // The port's HCA has gone, and with it the files of the port.
  void hang_up(u32 port);

  void serve(GeneralServices* services) { services_ = services; }
  // From a port's queue pair 1.
  void send_general(u32 port, const wire::Packet& packet, u64 now);

  // Time-outs, sweeps, traps. Gives when to call again (CLOCK_MONOTONIC ns), ~0: not before something happens.
  u64 on_time(u64 now);
  bool flush() { return files_.flush(); }
  [[nodiscard]] bool has_waiting() const { return files_.has_waiting(); }

  // Whether something was done since the last on_time() that may have set a timer or changed a port.
  [[nodiscard]] bool is_touched() const { return touched_; }

  // -- what changed since the last call
  struct PortChange {
    u32 port;
    fabric::PortStatus before;
    fabric::PortStatus now;
  };
  [[nodiscard]] std::vector<PortChange> take_changes();
  // Ports whose clients are asked to register anew with the subnet manager, since the last call.
  [[nodiscard]] std::vector<u32> take_reregistered() { return std::exchange(reregistered_, {}); }
  [[nodiscard]] bool take_routes_changed();
  [[nodiscard]] fabric::PortStatus status(u32 port) const;  // by index in the segment

  // -- Ways, for the data path; its traffic is counted along them
  Way find(RouteOwner owner, u32 port, u16 dlid, u8 sl, u16 pkey) override;
  Way find_multicast(RouteOwner owner, u32 port, u16 mlid, u8 sl) override;
  void forget(RouteOwner owner) override { accounts_.forget(owner); }
  // A QP behind `target` refused a packet from `source` (indices in the segment) for its key.
  void key_refused(ipc::KeyViolation kind, u32 source, u32 target, net::BadKey packet);
  // The counters of a port, with all traffic until now.
  [[nodiscard]] net::Network::Counters counters(u32 port);
  // One of them as the port's PMA shows it.
  [[nodiscard]] u64 counter(u32 port, ipc::PortCounter counter);

  [[nodiscard]] net::Network& network() { return *network_; }
  [[nodiscard]] const net::Network& network() const { return *network_; }
  // The built-in ones.
  struct ManagerView {
    net::PortRef place;
    sm::State state;
  };
  [[nodiscard]] std::vector<ManagerView> managers() const;
  // Ports (indices in the segment) where a program has the issm file open: it manages the subnet, or stands by.
  [[nodiscard]] std::vector<u32> issm_ports() const;
  [[nodiscard]] net::PortRef ref_of(u32 port) const { return refs_[port]; }
  [[nodiscard]] bool subnet_up() const;

  // -- faults; whoever makes some says touch()
  void touch() { touched_ = true; }
  [[nodiscard]] bool has_places_for_managers() const { return !places_.empty(); }
  [[nodiscard]] bool managers_stopped() const { return managers_stopped_; }
  // The built-in managers die without a word, or come back knowing nothing.
  void stop_managers();
  void start_managers();
  // A manager dies and comes back with the node that it sits on.
  void power(u32 node, bool on);

 private:
  void close_umad(u32 file);
  class Manager;

  // net::Observer
  void received(net::PortRef at, const wire::Packet& packet) override;
  void port_changed(net::PortRef port) override;
  void routes_changed(u32 node) override;
  void reregister(net::PortRef port) override;
  void about_to_show(net::PortRef port) override;
  void about_to_count() override { settle_traffic(); }
  // MadLayer::Outside
  void send(u32 port, const wire::Packet& packet) override;
  void deliver(u32 file, const ipc::UmadFrame& frame, std::span<const u8> mad) override;
  [[nodiscard]] u16 lid(u32 port) const override;
  [[nodiscard]] u16 pkey(u32 port, u16 index) const override;
  [[nodiscard]] u16 pkey_index(u32 port, u16 pkey) const override;
  [[nodiscard]] wire::GidBytes gid(u32 port, u8 index) const override;

  [[nodiscard]] std::vector<u32> lossy_links(std::span<const net::Hop> hops);
  void settle_traffic();
  void settle_violations(u32 port);
  void number_ports(const fabric::Fabric& fabric);
  void find_places(const fabric::Fabric& fabric);
  void remove_managers(std::optional<u32> node);
  void preset_lids(const fabric::Fabric& fabric);
  [[nodiscard]] u32 index_of(net::PortRef ref) const;
  [[nodiscard]] Manager* manager_at(net::PortRef ref) const;
  [[nodiscard]] u16 pkey_or_first(u32 port, u16 pkey) const;

  ipc::Segment& segment_;
  GeneralServices* services_ = nullptr;
  MadLayer layer_;
  UmadFiles files_;
  std::unique_ptr<net::Network> network_;
  Shapes shapes_;
  Accounts accounts_;
  std::vector<net::PortRef> refs_;         // by index in the segment
  std::vector<std::vector<u32>> indices_;  // by node and port number; 0: not a host's
  std::vector<net::PortRef> places_;       // of built-in managers
  sm::Options manager_options_;            // what they are told
  std::vector<std::unique_ptr<Manager>> managers_;
  bool managers_stopped_ = false;
  std::vector<u32> issm_files_;  // by index in the segment: the file that has issmN open, 0: none
  struct Violations {
    u32 p_key = 0;
    u32 q_key = 0;
  };
  std::vector<Violations> violations_;  // by index in the segment: those that the network has counted
  std::vector<bool> is_changed_;        // by index in the segment
  std::vector<PortChange> changes_;
  std::vector<u32> reregistered_;
  bool routes_changed_ = false;
  bool touched_ = true;
  u64 now_ = 0;
};

}  // namespace softib::daemon
