// The authority over a fabric's objects: one call per request, no sockets, no timers, no threads.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/aggregation.h"
#include "daemon/faults.h"
#include "daemon/host_trees.h"
#include "daemon/hosts_keeper.h"
#include "daemon/objects/ahs.h"
#include "daemon/objects/channels.h"
#include "daemon/objects/contexts.h"
#include "daemon/objects/cqs.h"
#include "daemon/objects/groups.h"
#include "daemon/objects/keys.h"
#include "daemon/objects/pds.h"
#include "daemon/objects/processes.h"
#include "daemon/objects/qps.h"
#include "daemon/objects/srqs.h"
#include "daemon/plane/plane.h"
#include "daemon/rdma_cm/wires.h"
#include "daemon/segment_file.h"
#include "daemon/stock_managers.h"
#include "daemon/watcher.h"
#include "fabric/fabric.h"
#include "hca/rules/repair.h"
#include "ipc/protocol.h"

namespace softib::daemon {

// A connection, and the process behind it once it has attached.
struct Peer {
  i32 pid = 0;
  u32 slot = 0;  // 0 before attach, and for tools
  bool is_tool = false;
  std::string status;  // the snapshot that it is reading

  [[nodiscard]] bool attached() const { return slot || is_tool; }
};

// What comes back: bytes that stay valid until the next call, and a descriptor to send along.
struct Reply {
  ipc::ReplyHeader header{};
  std::span<const u8> body;
  Fd fd;
};

class Control : private hca::RepairSink {
 public:
  // ENOMEM; E2BIG: the fabric is larger than the segment's tables.
  [[nodiscard]] static Result<std::unique_ptr<Control>> create(fabric::Fabric fabric, Watcher& watcher);
  ~Control() override;

  // A connection came, from process `pid` as far as known (0 = unknown). The id is never reused.
  [[nodiscard]] u32 connect(i32 pid);
  // It went, or its process died: the process is buried, what it held is given back.
  void disconnect(u32 peer);

  // One request: a RequestHeader and the operation's Request. Any bytes are safe.
  [[nodiscard]] Reply handle(u32 peer, std::span<const u8> message, Fd descriptor = {});

  void context_closed(u32 context);
  void channel_unread(u32 channel);

  // -- the management plane; none on Ethernet
  void umad_readable(u32 file, u64 now);
  void rdma_cm_unread(u32 file, u64 now);
  // Its timers, then settle(). Gives when to call again (CLOCK_MONOTONIC ns), ~0: not before something happens.
  u64 advance(u64 now);
  // Whether advance() is due before its time: something was done to the network.
  [[nodiscard]] bool wants_advance() const { return (plane_ && plane_->is_touched()) || wires_->is_touched(); }
  // Tells the programs, the segment and the sysfs tree what changed in the network since the last call.
  void settle();
  // The fabric's folder: below it lie the hosts' sysfs trees, made when they are asked for; settle() keeps them up to
  // date.
  void keep_trees_in(std::string dir) { trees_.lie_in(std::move(dir)); }
  [[nodiscard]] Plane* plane() { return plane_.get(); }
  [[nodiscard]] const Faults* faults() const { return faults_.get(); }  // none on Ethernet
  [[nodiscard]] const Plane* plane() const { return plane_.get(); }
  [[nodiscard]] const RdmaCm& rdma_cm() const { return wires_->service(); }

  // Other programs that manage the subnets, for status.
  void show_managers(const StockManagers* managers) { managers_ = managers; }
  [[nodiscard]] const StockManagers* stock_managers() const { return managers_; }
  // The programs of aggregation nodes, for status, and to let them in.
  void show_aggregation(const AggregationPrograms* programs) { aggregation_ = programs; }
  [[nodiscard]] const AggregationPrograms* aggregation() const { return aggregation_; }
  // Who holds the hosts' namespaces, for status and for programs that want to go there.
  void show_hosts(const HostsKeeper* keeper) { keeper_ = keeper; }
  [[nodiscard]] const HostsKeeper* hosts_keeper() const { return keeper_; }

  // Deferred work: what waits until data paths have moved on. True while some is left; call again a little later.
  bool tick();
  [[nodiscard]] bool has_deferred() const {
    return !limbo_.empty() || !dying_.empty() || (plane_ && plane_->has_waiting());
  }

  struct Manager {
    i32 pid = 0;
    std::string program;
  };
  // Who opened the issm file of a port last, by index in the segment.
  [[nodiscard]] const std::map<u32, Manager>& issm_openers() const { return issm_openers_; }

  // A port event for every context on the port's device.
  void raise_port_event(u32 port, u32 event_type);

  [[nodiscard]] ipc::Segment& segment() { return file_->segment(); }
  [[nodiscard]] const SegmentFile& segment_file() const { return *file_; }
  [[nodiscard]] const fabric::Fabric& fabric() const { return fabric_; }
  [[nodiscard]] const Arena& arena() const { return arena_; }
  [[nodiscard]] const Contexts& contexts() const { return contexts_; }
  [[nodiscard]] const Processes& processes() const { return processes_; }
  [[nodiscard]] const Pds& pds() const { return pds_; }
  [[nodiscard]] const Keys& keys() const { return keys_; }
  [[nodiscard]] const Cqs& cqs() const { return cqs_; }
  [[nodiscard]] const Srqs& srqs() const { return srqs_; }
  [[nodiscard]] const Qps& qps() const { return qps_; }
  [[nodiscard]] const Ahs& ahs() const { return ahs_; }
  [[nodiscard]] const Channels& channels() const { return channels_; }
  [[nodiscard]] const Groups& groups() const { return groups_; }
  [[nodiscard]] std::chrono::steady_clock::time_point started() const { return started_; }

 private:
  // Who asks, and what goes with the request beside its bytes.
  struct Caller {
    Peer& peer;
    ContextObject* context;  // where the operation needs one
    Fd received;
    Fd given;
  };
  struct Row;
  friend struct Rows;

  Control(fabric::Fabric fabric, std::unique_ptr<SegmentFile> file, Watcher& watcher);

  Result<u32> dispatch(Peer& peer, std::span<const u8> message, Fd descriptor, Fd& given);

  Result<ipc::Attach::Reply> attach(Caller& caller, const ipc::Attach::Request& request);
  Result<ipc::OpenContext::Reply> open_context(Caller& caller, const ipc::OpenContext::Request& request);
  Result<ipc::ImportContext::Reply> import_context(Caller& caller, const ipc::ImportContext::Request& request);
  Result<ipc::Empty> alloc_async_fd(Caller& caller, const ipc::Empty&);
  Result<ipc::AllocPd::Reply> alloc_pd(Caller& caller, const ipc::Empty&);
  Result<ipc::Empty> dealloc_pd(Caller& caller, const ipc::DeallocPd::Request& request);
  Result<ipc::RegMr::Reply> reg_mr(Caller& caller, const ipc::RegMr::Request& request);
  Result<ipc::ReregMr::Reply> rereg_mr(Caller& caller, const ipc::ReregMr::Request& request);
  Result<ipc::Empty> dereg_mr(Caller& caller, const ipc::DeregMr::Request& request);
  Result<ipc::AllocMw::Reply> alloc_mw(Caller& caller, const ipc::AllocMw::Request& request);
  Result<ipc::Empty> dealloc_mw(Caller& caller, const ipc::DeallocMw::Request& request);
  Result<ipc::CreateChannel::Reply> create_channel(Caller& caller, const ipc::Empty&);
  Result<ipc::CreateCq::Reply> create_cq(Caller& caller, const ipc::CreateCq::Request& request);
  Result<ipc::ResizeCq::Reply> resize_cq(Caller& caller, const ipc::ResizeCq::Request& request);
  Result<ipc::DestroyCq::Reply> destroy_cq(Caller& caller, const ipc::DestroyCq::Request& request);
  Result<ipc::CreateSrq::Reply> create_srq(Caller& caller, const ipc::CreateSrq::Request& request);
  Result<ipc::ModifySrq::Reply> modify_srq(Caller& caller, const ipc::ModifySrq::Request& request);
  Result<ipc::QuerySrq::Reply> query_srq(Caller& caller, const ipc::QuerySrq::Request& request);
  Result<ipc::DestroySrq::Reply> destroy_srq(Caller& caller, const ipc::DestroySrq::Request& request);
  Result<ipc::CreateQp::Reply> create_qp(Caller& caller, const ipc::CreateQp::Request& request);
  Result<ipc::ModifyQp::Reply> modify_qp(Caller& caller, const ipc::ModifyQp::Request& request);
  Result<ipc::QueryQp::Reply> query_qp(Caller& caller, const ipc::QueryQp::Request& request);
  Result<ipc::DestroyQp::Reply> destroy_qp(Caller& caller, const ipc::DestroyQp::Request& request);
  Result<ipc::CreateAh::Reply> create_ah(Caller& caller, const ipc::CreateAh::Request& request);
  Result<ipc::Empty> destroy_ah(Caller& caller, const ipc::DestroyAh::Request& request);
  Result<ipc::Empty> attach_multicast(Caller& caller, const ipc::AttachMulticast::Request& request);
  Result<ipc::Empty> detach_multicast(Caller& caller, const ipc::DetachMulticast::Request& request);
  Result<ipc::Empty> free_ring(Caller& caller, const ipc::FreeRing::Request& request);
  Result<ipc::Empty> channel_fd(Caller& caller, const ipc::ChannelFd::Request& request);
  Result<ipc::Empty> memory_fd(Caller& caller, const ipc::MemoryFd::Request& request);
  Result<ipc::Empty> raise_event(Caller& caller, const ipc::RaiseEvent::Request& request);
  Result<ipc::Status::Reply> status(Caller& caller, const ipc::Status::Request& request);
  Result<ipc::FindRoute::Reply> find_route(Caller& caller, const ipc::FindRoute::Request& request);
  Result<ipc::Empty> report_violation(Caller& caller, const ipc::ReportViolation::Request& request);
  Result<ipc::OpenUmad::Reply> open_umad(Caller& caller, const ipc::OpenUmad::Request& request);
  Result<ipc::UmadRegister::Reply> umad_register(Caller& caller, const ipc::UmadRegister::Request& request);
  Result<ipc::Empty> umad_unregister(Caller& caller, const ipc::UmadUnregister::Request& request);
  Result<ipc::OpenRdmaCm::Reply> open_rdma_cm(Caller& caller, const ipc::Empty&);
  Result<ipc::RdmaCmCommand::Reply> rdma_cm_command(Caller& caller, const ipc::RdmaCmCommand::Request& request);
  Result<ipc::Empty> set_addresses(Caller& caller, const ipc::SetAddresses::Request& request);
  Result<ipc::Fault::Reply> fault(Caller& caller, const ipc::Fault::Request& request);
  Result<ipc::Fault::Reply> run_aggregation(bool run);
  void kill_programs(u32 host, ipc::Fault::Reply& reply);
  void remove_device(u32 device);
  [[nodiscard]] bool is_removed(u32 device) const;
  [[nodiscard]] u32 device_at(HcaPlace at) const;
  Result<ipc::PrepareHost::Reply> prepare_host(Caller& caller, const ipc::PrepareHost::Request& request);
  Result<ipc::ReadCounter::Reply> read_counter(Caller& caller, const ipc::ReadCounter::Request& request);
  Result<ipc::MachineSocket::Reply> machine_socket(Caller& caller, const ipc::MachineSocket::Request& request);
  // For a process. ENODEV; EPERM: nobody but softibd runs programs there.
  [[nodiscard]] Result<u32> host_for_programs(std::string_view name, pid_t pid) const;
  [[nodiscard]] u32 device_named(u32 host, std::string_view name) const;
  [[nodiscard]] u32 umad_port(u32 host, u32 number) const;
  void tell_port_change(const Plane::PortChange& change);
  Result<ipc::ListHandles::Reply> list_handles(Caller& caller, const ipc::ListHandles::Request& request);

  struct EventTarget {
    u32 context;
    u64 user_handle;
    u32 generation;
  };
  [[nodiscard]] Result<EventTarget> find_event_target(ipc::ObjectKind kind, u32 object);

  void repair_the_dead();
  void destroy_objects(ContextObject& context);
  void completion_event(u32 cq) override;
  void cq_overrun(u32 cq) override;

  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  fabric::Fabric fabric_;
  std::unique_ptr<SegmentFile> file_;
  Arena arena_;
  Limbo limbo_;
  Routes routes_;
  World world_;
  Contexts contexts_;
  Processes processes_;
  Pds pds_;
  Channels channels_;
  Keys keys_;
  Cqs cqs_;
  Srqs srqs_;
  Groups groups_;
  Resolver resolver_;
  Ahs ahs_;
  Qps qps_;
  std::unique_ptr<Plane> plane_;
  std::unique_ptr<Faults> faults_;
  std::unique_ptr<RdmaCmWires> wires_;
  HostTrees trees_;
  const StockManagers* managers_ = nullptr;
  const AggregationPrograms* aggregation_ = nullptr;
  const HostsKeeper* keeper_ = nullptr;
  std::map<u32, Manager> issm_openers_;
  std::map<u32, Peer> peers_;
  u32 last_peer_ = 0;
  std::vector<u32> dying_;  // slots of the dead that still hold locks which a live process must let go first
  std::array<u8, ipc::max_message> reply_;
};

}  // namespace softib::daemon
