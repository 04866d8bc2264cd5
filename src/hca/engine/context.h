// What every action of the data path works with.
#pragma once

#include "hca/engine/events.h"
#include "hca/engine/peer_memory.h"
#include "ipc/segment.h"

namespace softib::hca {

struct Context {
  ipc::Segment& segment;
  u32 slot;  // this process's
  PeerMemory memory;
  EventQueue events;
  Channels channels;
  Routes routes;
  Violations violations;

  Context(ipc::Segment& s, ipc::Client& client, u32 own_slot, int memory_fd)
      : segment(s),
        slot(own_slot),
        memory(s, client, own_slot, memory_fd),
        events(client),
        channels(client),
        routes(client),
        violations(client) {}

  [[nodiscard]] ipc::Qp* qp(u32 qpn) const {
    if (qpn == 0 || qpn >= ipc::max_qps) return nullptr;
    ipc::Qp& found = segment.qps[qpn];
    return found.generation.load(std::memory_order_acquire) ? &found : nullptr;
  }
  [[nodiscard]] ipc::Cq& cq(u32 index) const { return segment.cqs[index & (ipc::max_cqs - 1)]; }
  [[nodiscard]] ipc::Srq& srq(u32 index) const { return segment.srqs[index & (ipc::max_srqs - 1)]; }
  [[nodiscard]] ipc::Port& port(u32 index) const { return segment.ports[index & (ipc::max_ports - 1)]; }
  [[nodiscard]] ipc::Process& process(u32 index) const { return segment.processes[index & (ipc::max_processes - 1)]; }

  void raise(const ipc::Qp& qp, AsyncEvent event) {
    events.add(ipc::ObjectKind::qp, qp.qpn, qp.generation.load(std::memory_order_relaxed), event);
  }
};

}  // namespace softib::hca
