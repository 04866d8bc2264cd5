// rdma_cm's ties to the rest: packets from and to queue pair 1 of ports, and the pipes of open files.
#pragma once

#include <deque>
#include <map>

#include "base/fd.h"
#include "daemon/plane/plane.h"
#include "daemon/rdma_cm/service.h"
#include "daemon/watcher.h"

namespace softib::daemon {

class RdmaCmWires final : private RdmaCm::Outside, private GeneralServices {
 public:
  // Without a plane packets go by the ports' GIDs: an Ethernet has nobody who manages it.
  RdmaCmWires(const fabric::Fabric& fabric, const ipc::Segment& segment, Watcher& watcher, Plane* plane);

  struct Opened {
    u32 file;
    Fd read;
  };
  Result<Opened> open(u32 host);
  void unread(u32 file, u64 now);
  Result<u32> carry_out(const RdmaCm::Command& command);
  void host_down(u32 host) { service_.host_down(host); }
  void device_down(u32 first_port, u32 port_count, u64 now);

  // Gives when to call again, ~0: not before something happens.
  u64 advance(u64 now);
  // Whether that is due before its time.
  [[nodiscard]] bool is_touched() const { return touched_; }

  [[nodiscard]] RdmaCm& service() { return service_; }
  [[nodiscard]] const RdmaCm& service() const { return service_; }

 private:
  struct Pipe {
    Fd write;
    bool readable = false;
  };
  struct Sent {
    u32 port;
    wire::Packet packet;
  };

  // What is said while something is being carried out goes out after it.
  void send(u32 port, const wire::Packet& packet) override;
  void set_readable(u32 file, bool readable) override;
  bool received(u32 port, const wire::Packet& packet, u64 now) override;
  void send_what_waits(u64 now);
  void carry_over_ethernet(const Sent& sent, u64 now);

  const ipc::Segment& segment_;
  Watcher& watcher_;
  Plane* plane_;
  RdmaCm service_;
  std::map<u32, Pipe> pipes_;  // by file
  std::deque<Sent> waiting_;
  bool sending_ = false;
  bool touched_ = false;
};

}  // namespace softib::daemon
