// What the kernel's rdma_cm and rdma_ucm do for the programs of all hosts: ids and their events, addresses and routes,
// connections by the protocol in src/cm, datagram services, multicast groups. Each open /dev/infiniband/rdma_cm is a
// file here; its commands come with their structures as the program wrote them. No sockets and no clock inside.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <unordered_map>

#include "abi/rdma_cm.h"
#include "cm/manager.h"
#include "daemon/rdma_cm/address_book.h"
#include "daemon/rdma_cm/id.h"
#include "daemon/rdma_cm/sa_client.h"

namespace softib::daemon {

class RdmaCm final : private SaClient::Outside {
 public:
  class Outside {
   public:
    virtual ~Outside() = default;
    // From a port's queue pair 1.
    virtual void send(u32 port, const wire::Packet& packet) = 0;
    // Whether a file has events: its descriptor is to be readable as long.
    virtual void set_readable(u32 file, bool readable) = 0;
  };

  RdmaCm(const fabric::Fabric& fabric, const ipc::Segment& segment, Outside& outside);
  ~RdmaCm() override;

  [[nodiscard]] u32 open(u32 host);
  // All its ids go; the other ends of their connections are told.
  void close(u32 file, u64 now);
  [[nodiscard]] bool is_open(u32 file) const { return files_.contains(file); }

  // One command (RDMA_USER_CM_CMD_*) of a file: its structure in, the size of its answer's out. `extra`: what the
  // command points to, or its descriptor as a file's number. The errno is that of the kernel's write().
  struct Command {
    u32 file = 0;
    u32 number = 0;
    std::span<const u8> in;
    std::span<const u8> extra;
    u32 other_file = 0;
    std::span<u8> out;
    u64 now = 0;
  };
  Result<u32> carry_out(const Command& command);

  // A packet at a port's queue pair 1. False: it is somebody else's.
  bool received(u32 port, const wire::Packet& packet, u64 now);
  // Gives when to call again, ~0: not before something happens.
  u64 on_time(u64 now);

  // The HCA behind a host's ports is gone: connections of that host are forgotten without a word.
  void host_down(u32 host);

  [[nodiscard]] AddressBook& addresses() { return book_; }

  // An HCA has gone, with its ports from `first_port` on: ids that have it hear of it, and can but be destroyed.
  void device_down(u32 first_port, u32 port_count, u64 now);

  struct Counts {
    size_t files, ids, listening, events, connections, timewaits, multicasts;
  };
  [[nodiscard]] Counts counts() const;

 private:
  using Event = abi::CmEvent;
  struct Host;
  struct QueuedEvent {
    u32 id;         // whose it is
    u32 multicast;  // 0: none
    u32 fresh;      // of a connection request: the new id
    rdma_ucm_event_resp response;
  };
  struct File {
    u32 host;
    std::deque<QueuedEvent> events;
    std::set<u32> ids;
  };
  struct Group {
    u32 members = 0;  // of ids
    u8 join_state = 0;
  };
  using GroupName = std::pair<u32, GidBytes>;
  struct Row;

  // -- ids and files (service.cpp)
  Host& host(u32 index);
  [[nodiscard]] u32 host_of(u32 port) const;
  [[nodiscard]] const ipc::Port& port(u32 index) const;
  [[nodiscard]] bool on_ethernet(u32 port_index) const;
  [[nodiscard]] cm::Manager& manager(const Id& id);
  Result<Id*> find(const Command& command, u32 handle);
  Result<Id*> find_with_device(const Command& command, u32 handle);
  [[nodiscard]] Id* find(u32 handle);
  Id* add_id(u32 file);
  void destroy(u32 handle, u64 now);
  void drop_events(File& file, u32 handle, u64 now);
  void drop_request(u32 fresh);
  void forget_doings(Id& id);
  void tell_removal(Id& id);
  void set_timer(Id& id, u64 at);
  void watch_connection(Id& id, u32 connection);
  // -- events
  void queue(Id& id, rdma_ucm_event_resp response, u32 multicast = 0, u32 fresh = 0);
  void tell(Id& id, Event event, int status = 0);
  void tell_connected(Id& id, Event event, const cm::Event& from, u32 private_size);

  // -- commands (commands.cpp)
  static const Row* find_row(u32 number);
  Result<u32> create_id(const Command& command, const rdma_ucm_create_id& request);
  Result<u32> destroy_id(const Command& command, const rdma_ucm_destroy_id& request);
  Result<u32> get_event(const Command& command, const rdma_ucm_get_event& request);
  Result<u32> set_option(const Command& command, const rdma_ucm_set_option& request);
  Result<u32> get_option(const Command& command, const rdma_ucm_set_option& request);
  Result<u32> migrate_id(const Command& command, const rdma_ucm_migrate_id& request);
  Result<void> set_id_option(Id& id, u32 name, std::span<const u8> value);
  Result<void> set_path(Id& id, std::span<const u8> value);

  // -- addresses and routes (resolve.cpp)
  Result<u32> bind_ip(const Command& command, const rdma_ucm_bind_ip& request);
  Result<u32> bind_address(const Command& command, const rdma_ucm_bind& request);
  Result<u32> resolve_ip(const Command& command, const rdma_ucm_resolve_ip& request);
  Result<u32> resolve_address(const Command& command, const rdma_ucm_resolve_addr& request);
  Result<u32> resolve_route(const Command& command, const rdma_ucm_resolve_route& request);
  Result<void> bind(Id& id, const SocketAddress& address);
  Result<void> attach_to_source(Id& id);
  Result<void> take_port(Id& id);
  Result<void> resolve(Id& id, const SocketAddress* source, const SocketAddress& destination, u32 timeout_ms, u64 now);
  Result<void> look_up(Id& id, u32 timeout_ms, u64 now);
  Result<void> look_up_ip(Id& id);
  Result<void> look_up_group(Id& id);
  Result<void> look_up_gid(Id& id);
  Result<void> look_up_any(Id& id);
  void attach(Id& id, u32 port_index, u16 pkey);
  [[nodiscard]] u32 active_port(u32 host_index) const;
  [[nodiscard]] bool is_member(u32 index, u16 pkey) const;
  [[nodiscard]] bool reaches(const Id& from, const BookedAddress& to) const;
  void make_ethernet_path(Id& id);
  Result<void> ask_for_path(Id& id, u32 timeout_ms, u64 now);
  [[nodiscard]] u64 service_id(const Id& id, const SocketAddress& address) const;
  [[nodiscard]] GidBytes gid_of(u32 port_index, const Ip& ip) const;
  [[nodiscard]] u8 gid_index(u32 port_index, const GidBytes& gid) const;

  // -- connections, from the program (connect.cpp)
  Result<u32> connect(const Command& command, const rdma_ucm_connect& request);
  Result<u32> listen(const Command& command, const rdma_ucm_listen& request);
  Result<u32> accept(const Command& command, const rdma_ucm_accept& request);
  Result<u32> reject(const Command& command, const rdma_ucm_reject& request);
  Result<u32> disconnect(const Command& command, const rdma_ucm_disconnect& request);
  Result<u32> notify(const Command& command, const rdma_ucm_notify& request);
  Result<void> connect_queue_pair(Id& id, const rdma_ucm_conn_param& parameters, u64 now);
  Result<void> ask_service(Id& id, const rdma_ucm_conn_param& parameters, u64 now);
  Result<void> accept_datagram(Id& id, const rdma_ucm_conn_param* parameters);
  Result<void> refuse(const Id& id, cm::RejectReason reason, std::span<const u8> private_data, u64 now);
  Result<void> start_listening(Id& id);
  void stop_listening(Id& id, u64 now);
  [[nodiscard]] std::vector<u8> greeting(const Id& id, const rdma_ucm_conn_param& parameters) const;
  Result<void> set_qkey(Id& id, u32 qkey);

  // -- and from the other end (incoming.cpp)
  void happened(Host& at, const cm::Event& event);
  void request_came(Host& at, const cm::Event& event);
  [[nodiscard]] Id* listener_for(Host& at, const cm::Event& event);
  void connection_event(Id& id, const cm::Event& event);
  void reply_came(Id& id, const cm::Event& event);
  void service_answered(Id& id, const cm::Event& event);

  // -- what programs ask (query.cpp)
  Result<u32> query_route(const Command& command, const rdma_ucm_query& request);
  Result<u32> query(const Command& command, const rdma_ucm_query& request);
  Result<u32> query_address(const Command& command, const Id& id);
  Result<u32> query_path(const Command& command, const Id& id);
  Result<u32> query_gid(const Command& command, const Id& id);
  Result<u32> init_qp_attributes(const Command& command, const rdma_ucm_init_qp_attr& request);
  Result<ib_uverbs_qp_attr> datagram_attributes(Id& id, u32 state);
  Result<ib_uverbs_qp_attr> connected_attributes(const Id& id, u32 state);
  void fill_address(ib_uverbs_ah_attr& to, const cm::Path& path, u32 port_index) const;

  // -- multicast (multicast.cpp)
  Result<u32> join_ip(const Command& command, const rdma_ucm_join_ip_mcast& request);
  Result<u32> join(const Command& command, const rdma_ucm_join_mcast& request);
  Result<u32> leave(const Command& command, const rdma_ucm_destroy_id& request);
  Result<u32> start_join(const Command& command, u64 uid, u32 handle, const SocketAddress& address, u8 join_state);
  Result<void> join_ethernet(Id& id, Multicast& multicast);
  Result<void> join_infiniband(Id& id, Multicast& multicast, u64 now);
  void joined(u32 handle, int status, std::span<const u8> record);
  void tell_joined(Id& id, Multicast& multicast, const cm::Path& path, u32 qkey);
  void end_multicast(u32 handle, u64 now);
  void leave_group(u32 port_index, const Multicast& multicast, u64 now);
  [[nodiscard]] GidBytes group_gid(const Id& id, const SocketAddress& address) const;

  // SaClient::Outside
  void send(u32 port, const wire::Packet& packet) override { outside_.send(port, packet); }
  [[nodiscard]] u16 lid(u32 port) const override;
  [[nodiscard]] u16 manager_lid(u32 port) const override;
  [[nodiscard]] u8 manager_sl(u32 port) const override;

  const ipc::Segment& segment_;
  Outside& outside_;
  AddressBook book_;
  SaClient administration_;
  std::vector<u32> subnets_;  // by port index
  std::map<u32, std::unique_ptr<Host>> hosts_;
  std::map<u32, File> files_;
  std::unordered_map<u32, Id> ids_;
  std::set<u32> free_handles_;
  std::unordered_map<u32, Multicast> multicasts_;
  std::set<u32> free_groups_;
  std::map<GroupName, Group> groups_;  // by port and MGID
  std::set<std::pair<u64, u32>> timers_;
  u32 boots_ = 0;  // of all hosts together
  u32 last_file_ = 0;
  u32 last_handle_ = 0;  // one past the highest ever given
  u32 last_multicast_ = 0;
  u32 psn_ = 0x5eed;
  u64 now_ = 0;
};

}  // namespace softib::daemon
