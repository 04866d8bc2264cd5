// rdma_cm as a program's commands see it, on an Ethernet fabric of two hosts, in virtual time.
#include "daemon/rdma_cm/service.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <deque>

#include "control_fixture.h"
#include "daemon/populate.h"
#include "daemon/rdma_cm/path_record.h"
#include "daemon/rdma_cm/wires.h"
#include "daemon/segment_file.h"
#include "fabric/addresses.h"
#include "hca/rules/address.h"

namespace softib::daemon {
namespace {

using abi::CmEvent;

rdma_ucm_init_qp_attr attributes_of(u32 id, u32 state) { return {0, id, state}; }
rdma_ucm_destroy_id destruction_of(u32 id) { return {0, id, 0}; }
rdma_ucm_query query_of(u32 id, u32 option) { return {0, id, option}; }
rdma_ucm_reject rejection_of(u32 id) {
  rdma_ucm_reject request{};
  request.id = id;
  return request;
}
rdma_ucm_accept confirmation_of(u32 id) {
  rdma_ucm_accept request{};
  request.id = id;
  return request;
}

class RdmaCmTest : public ::testing::Test, public RdmaCm::Outside {
 protected:
  explicit RdmaCmTest(ipc::LinkLayer layer = ipc::LinkLayer::ethernet)
      : fabric_(fabric::default_fabric("test", layer)), file_(*SegmentFile::create()) {
    EXPECT_TRUE(populate(file_->segment(), fabric_));
    service_ = std::make_unique<RdmaCm>(fabric_, file_->segment(), *this);
    files_ = {service_->open(0), service_->open(1)};
  }

  void send(u32, const wire::Packet& packet) override { under_way_.push_back(packet); }
  void set_readable(u32 file, bool readable) override { readable_[file] = readable; }

  void settle() {
    while (!under_way_.empty()) {
      const wire::Packet packet = under_way_.front();
      under_way_.pop_front();
      if (cut_) continue;
      for (u32 port = 1; port <= 2; ++port)
        for (const ipc::Gid& gid : file_->segment().ports[port].gids)
          if (std::equal(std::begin(gid.raw), std::end(gid.raw), packet.global->destination.begin()) &&
              gid != ipc::Gid{}) {
            service_->received(port, packet, now_);
            goto next;
          }
    next:;
    }
  }

  template <typename Response = rdma_ucm_create_id_resp, typename Request>
  Result<Response> call(u32 host, u32 number, const Request& request, std::span<const u8> extra = {}) {
    Response response{};
    RdmaCm::Command command;
    command.file = files_[host];
    command.number = number;
    command.in = {reinterpret_cast<const u8*>(&request), sizeof request};
    command.extra = extra;
    command.other_file = files_[host];
    command.out = {reinterpret_cast<u8*>(&response), sizeof response};
    command.now = now_;
    auto size = service_->carry_out(command);
    settle();
    if (!size) return fail(size.error());
    return response;
  }

  template <typename Request>
  int error_of(u32 host, u32 number, const Request& request) {
    auto done = call<rdma_ucm_event_resp>(host, number, request);
    return done ? 0 : to_int(done.error());
  }

  u32 create(u32 host, u16 space = RDMA_PS_TCP) {
    rdma_ucm_create_id request{};
    request.uid = ++last_uid_;
    request.ps = space;
    request.qp_type = space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
    return call(host, RDMA_USER_CM_CMD_CREATE_ID, request)->id;
  }

  void move(u32 id, u32 from, u32 to) {
    rdma_ucm_migrate_resp response{};
    const rdma_ucm_migrate_id request{0, id, 0};
    RdmaCm::Command command;
    command.file = to;
    command.number = RDMA_USER_CM_CMD_MIGRATE_ID;
    command.in = {reinterpret_cast<const u8*>(&request), sizeof request};
    command.other_file = from;
    command.out = {reinterpret_cast<u8*>(&response), sizeof response};
    command.now = now_;
    EXPECT_TRUE(service_->carry_out(command));
  }

  static rdma_ucm_bind bind_request(u32 id, u32 address, u16 port) {
    rdma_ucm_bind request{};
    request.id = id;
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    in.sin_addr.s_addr = htonl(address);
    request.addr_size = sizeof in;
    std::memcpy(&request.addr, &in, sizeof in);
    return request;
  }

  int bind(u32 host, u32 id, u32 address, u16 port) {
    return error_of(host, RDMA_USER_CM_CMD_BIND, bind_request(id, address, port));
  }

  int resolve(u32 host, u32 id, u32 address, u16 port) {
    const rdma_ucm_bind wanted = bind_request(id, address, port);
    rdma_ucm_resolve_addr request{};
    request.id = id;
    request.timeout_ms = 2000;
    request.dst_size = wanted.addr_size;
    std::memcpy(&request.dst_addr, &wanted.addr, sizeof wanted.addr);
    return error_of(host, RDMA_USER_CM_CMD_RESOLVE_ADDR, request);
  }

  rdma_ucm_event_resp event(u32 host) {
    auto read = call<rdma_ucm_event_resp>(host, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{});
    EXPECT_TRUE(read);
    return read.value_or(rdma_ucm_event_resp{});
  }
  void expect_event(u32 host, CmEvent what, int status = 0) {
    const rdma_ucm_event_resp got = event(host);
    EXPECT_EQ(got.event, static_cast<u32>(what));
    EXPECT_EQ(static_cast<int>(got.status), status);
  }

  u32 listen(u32 host, u16 port, u32 backlog = 0, u16 space = RDMA_PS_TCP) {
    const u32 id = create(host, space);
    EXPECT_EQ(bind(host, id, 0, port), 0);
    EXPECT_EQ(error_of(host, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, backlog}), 0);
    return id;
  }

  rdma_ucm_conn_param parameters(u32 qpn) {
    rdma_ucm_conn_param p{};
    p.qp_num = qpn;
    p.responder_resources = 2;
    p.initiator_depth = 1;
    p.retry_count = 7;
    p.private_data[0] = 42;
    p.private_data_len = 1;
    p.valid = 1;
    return p;
  }

  // An id of host 0 that has asked host 1's port.
  u32 ask(u16 port, u16 space = RDMA_PS_TCP) {
    const u32 id = create(0, space);
    EXPECT_EQ(resolve(0, id, fabric::default_address(1, 0), port), 0);
    expect_event(0, CmEvent::address_resolved);
    EXPECT_EQ(error_of(0, RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 2000}), 0);
    expect_event(0, CmEvent::route_resolved);
    rdma_ucm_connect request{};
    request.id = id;
    request.conn_param = parameters(0x100 + id);
    EXPECT_EQ(error_of(0, RDMA_USER_CM_CMD_CONNECT, request), 0);
    return id;
  }

  // Both ends of a connection.
  std::pair<u32, u32> connect() {
    listen(1, 7174);
    const u32 asker = ask(7174);
    const u32 answerer = event(1).id;
    rdma_ucm_accept request{};
    request.id = answerer;
    request.uid = ++last_uid_;
    request.conn_param = parameters(0x500);
    EXPECT_EQ(error_of(1, RDMA_USER_CM_CMD_ACCEPT, request), 0);
    expect_event(0, CmEvent::connect_response);
    EXPECT_EQ(error_of(0, RDMA_USER_CM_CMD_ACCEPT, confirmation_of(asker)), 0);
    expect_event(1, CmEvent::established);
    return {asker, answerer};
  }

  void pass(u64 duration) {
    for (const u64 end = now_ + duration; now_ < end;) {
      const u64 next = service_->on_time(now_);
      settle();
      now_ = std::min(end, std::max(next, now_ + 1));
    }
    service_->on_time(now_);
    settle();
  }

  static constexpr u64 second = 1'000'000'000;
  fabric::Fabric fabric_;
  std::unique_ptr<SegmentFile> file_;
  std::unique_ptr<RdmaCm> service_;
  std::array<u32, 2> files_{};
  std::map<u32, bool> readable_;
  std::deque<wire::Packet> under_way_;
  bool cut_ = false;
  u64 now_ = 1;
  u64 last_uid_ = 0x1000;
};

TEST_F(RdmaCmTest, ConnectsTransfersDataAndParts) {
  const auto [asker, answerer] = connect();
  ib_uverbs_qp_attr a = *call<ib_uverbs_qp_attr>(0, RDMA_USER_CM_CMD_INIT_QP_ATTR, attributes_of(asker, IBV_QPS_RTR));
  EXPECT_EQ(a.dest_qp_num, 0x500u);
  EXPECT_EQ(a.ah_attr.is_global, 1);
  EXPECT_EQ(a.ah_attr.grh.sgid_index, 3);  // RoCE v2, by the IPv4 address
  EXPECT_EQ(error_of(0, RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{asker}), 0);
  expect_event(1, CmEvent::disconnected);
  EXPECT_EQ(error_of(1, RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{answerer}), 0);
  expect_event(0, CmEvent::disconnected);
  pass(10 * second);
  expect_event(0, CmEvent::timewait_exit);
  expect_event(1, CmEvent::timewait_exit);
}

// Queue pairs are made ready before and after the REP: what both are told to count from must be the same.
TEST_F(RdmaCmTest, BothEndsAreToldTheSameSequenceNumbers) {
  listen(1, 7174);
  const u32 asker = ask(7174);
  const u32 answerer = event(1).id;
  const auto attributes = [&](u32 host, u32 id, u32 state) {
    return *call<ib_uverbs_qp_attr>(host, RDMA_USER_CM_CMD_INIT_QP_ATTR, attributes_of(id, state));
  };
  const ib_uverbs_qp_attr receives = attributes(1, answerer, IBV_QPS_RTR);
  const ib_uverbs_qp_attr sends = attributes(1, answerer, IBV_QPS_RTS);
  rdma_ucm_accept request{};
  request.id = answerer;
  request.uid = 5;
  request.conn_param = parameters(0x500);
  ASSERT_EQ(error_of(1, RDMA_USER_CM_CMD_ACCEPT, request), 0);
  EXPECT_EQ(attributes(0, asker, IBV_QPS_RTR).rq_psn, sends.sq_psn);
  EXPECT_EQ(attributes(0, asker, IBV_QPS_RTS).sq_psn, receives.rq_psn);
  EXPECT_NE(receives.rq_psn, 0u);
  EXPECT_EQ(sends.max_rd_atomic, 2);
  EXPECT_EQ(receives.max_dest_rd_atomic, 1);
}

TEST_F(RdmaCmTest, RequestsCarryAddressesAndPrivateData) {
  const u32 listener = listen(1, 7174);
  const u32 asker = ask(7174);
  const rdma_ucm_event_resp request = event(1);
  EXPECT_EQ(request.event, static_cast<u32>(CmEvent::connect_request));
  EXPECT_EQ(request.param.conn.private_data[0], 42);
  EXPECT_EQ(request.param.conn.private_data_len, 92 - 36);
  EXPECT_EQ(request.param.conn.qp_num, 0x100 + asker);
  EXPECT_NE(request.id, listener);
  const auto told =
      *call<rdma_ucm_query_addr_resp>(1, RDMA_USER_CM_CMD_QUERY, query_of(request.id, RDMA_USER_CM_QUERY_ADDR));
  sockaddr_in from{};
  std::memcpy(&from, &told.dst_addr, sizeof from);
  EXPECT_EQ(ntohl(from.sin_addr.s_addr), fabric::default_address(0, 0));
  EXPECT_EQ(told.port_num, 1);
}

TEST_F(RdmaCmTest, WhoNobodyWantsIsToldWhy) {
  ask(4444);
  expect_event(0, CmEvent::rejected, 8);
  listen(1, 7174);
  ask(7174);
  rdma_ucm_reject refusal{};
  refusal.id = event(1).id;
  EXPECT_EQ(error_of(1, RDMA_USER_CM_CMD_REJECT, refusal), 0);
  expect_event(0, CmEvent::rejected, 28);
}

// The kernel doesn't answer what it has no room for, and so loses nobody.
TEST_F(RdmaCmTest, WhoFindsTheBacklogFullIsHeardWhenItAsksAgain) {
  listen(1, 7174, 2);
  for (int i = 0; i < 3; ++i) ask(7174);
  EXPECT_FALSE(readable_[files_[0]]) << "nobody is refused";
  EXPECT_EQ(service_->counts().events, 2u);
  pass(30 * second);
  EXPECT_EQ(service_->counts().events, 2u) << "no room yet";
  event(1);  // one seen: there is room again
  pass(30 * second);
  EXPECT_EQ(service_->counts().events, 2u);
  for (int i = 0; i < 2; ++i) expect_event(1, CmEvent::connect_request);
  EXPECT_FALSE(readable_[files_[0]]);
}

// Questions about services are another matter: they are refused.
TEST_F(RdmaCmTest, ADatagramServiceWithAFullBacklogRefuses) {
  listen(1, 7174, 1, RDMA_PS_UDP);
  ask(7174, RDMA_PS_UDP);
  ask(7174, RDMA_PS_UDP);
  constexpr int rejected = 2;
  expect_event(0, CmEvent::unreachable, rejected);
  EXPECT_EQ(service_->counts().events, 1u);
}

TEST_F(RdmaCmTest, AddressesThatNobodyHas) {
  u32 id = create(0);
  ASSERT_EQ(resolve(0, id, 0x0a004d4d, 1), 0);
  pass(second);
  EXPECT_FALSE(readable_[files_[0]]);
  pass(2 * second);
  expect_event(0, CmEvent::address_error, -ETIMEDOUT);
  id = create(0);
  EXPECT_EQ(resolve(0, id, 0xc0000201, 1), ENETUNREACH) << "that is known at once";
  EXPECT_FALSE(readable_[files_[0]]);
  EXPECT_EQ(resolve(0, id, fabric::default_address(1, 0), 1), 0) << "it may try another";
  expect_event(0, CmEvent::address_resolved);
}

// As the kernel's cma_any_addr() has it, loopback is the wildcard.
TEST_F(RdmaCmTest, LoopbackIsTheHostItself) {
  constexpr u32 loopback = 0x7f000001;
  ASSERT_EQ(resolve(0, create(0), loopback, 1), 0);
  expect_event(0, CmEvent::address_resolved);
  EXPECT_EQ(bind(1, create(1), loopback, 97), 0);
  EXPECT_EQ(bind(1, create(1), fabric::default_address(1, 0), 97), EADDRNOTAVAIL) << "a wildcard has the port";
  EXPECT_EQ(bind(1, create(1), fabric::loopback_address(1, 0), 96), 0) << "that part of 127/8 is the hosts'";
  EXPECT_EQ(bind(1, create(1), fabric::loopback_address(0, 0), 95), EADDRNOTAVAIL) << "and this one another's";
}

TEST_F(RdmaCmTest, AddressesMayBeReplaced) {
  constexpr u8 prefix = 96 + 24;
  service_->addresses().set(1, {{0, ip_of(0xc0a80001), prefix, 0}});
  service_->addresses().set(2, {{0, ip_of(0xc0a80002), prefix, 0}});
  listen(1, 7174);
  const u32 id = create(0);
  ASSERT_EQ(resolve(0, id, 0xc0a80002, 7174), 0);
  expect_event(0, CmEvent::address_resolved);
  ASSERT_EQ(error_of(0, RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 2000}), 0);
  expect_event(0, CmEvent::route_resolved);
  rdma_ucm_connect request{};
  request.id = id;
  request.conn_param = parameters(0x111);
  ASSERT_EQ(error_of(0, RDMA_USER_CM_CMD_CONNECT, request), 0);
  expect_event(1, CmEvent::connect_request);
  EXPECT_EQ(resolve(0, create(0), fabric::default_address(1, 0), 7174), ENETUNREACH);
}

TEST_F(RdmaCmTest, SilenceIsUnreachable) {
  listen(1, 7174);
  cut_ = true;
  ask(7174);
  pass(120 * second);
  expect_event(0, CmEvent::unreachable, -ETIMEDOUT);
}

TEST_F(RdmaCmTest, PortsBelongToWhoBoundThemFirst) {
  const u32 first = create(1);
  EXPECT_EQ(bind(1, first, fabric::default_address(1, 0), 99), 0);
  EXPECT_EQ(bind(1, create(1), fabric::default_address(1, 0), 99), EADDRINUSE);
  EXPECT_EQ(bind(1, create(1), 0, 99), EADDRNOTAVAIL);
  EXPECT_EQ(bind(1, create(1), fabric::default_address(0, 0), 98), EADDRNOTAVAIL);
  EXPECT_EQ(bind(0, create(0), fabric::default_address(0, 0), 99), 0);
  EXPECT_EQ(bind(1, create(1, RDMA_PS_UDP), fabric::default_address(1, 0), 99), 0);
  call<rdma_ucm_destroy_id_resp>(1, RDMA_USER_CM_CMD_DESTROY_ID, destruction_of(first)).value();
  EXPECT_EQ(bind(1, create(1), fabric::default_address(1, 0), 99), 0);
}

TEST_F(RdmaCmTest, DatagramServicesTellTheirQueuePair) {
  listen(1, 7174, 0, RDMA_PS_UDP);
  ask(7174, RDMA_PS_UDP);
  const u32 answerer = event(1).id;
  rdma_ucm_accept request{};
  request.id = answerer;
  request.uid = 5;
  request.conn_param = parameters(0x77);
  ASSERT_EQ(error_of(1, RDMA_USER_CM_CMD_ACCEPT, request), 0);
  const rdma_ucm_event_resp told = event(0);
  EXPECT_EQ(told.event, static_cast<u32>(CmEvent::established));
  EXPECT_EQ(told.param.ud.qp_num, 0x77u);
  EXPECT_EQ(told.param.ud.qkey, abi::rdma_udp_qkey);
  ask(7175, RDMA_PS_UDP);
  expect_event(0, CmEvent::unreachable, 1);
}

TEST_F(RdmaCmTest, ClosingAFileTellsTheOtherEnds) {
  connect();
  service_->close(files_[1], now_);
  settle();
  expect_event(0, CmEvent::disconnected);
  service_->close(files_[0], now_);
  pass(20 * second);
  const RdmaCm::Counts left = service_->counts();
  EXPECT_EQ(left.ids + left.files + left.events + left.connections + left.timewaits, 0u);
}

TEST_F(RdmaCmTest, ConnectionsThatNobodySawGoWithTheirListener) {
  const u32 listener = listen(1, 7174);
  ask(7174);
  call<rdma_ucm_destroy_id_resp>(1, RDMA_USER_CM_CMD_DESTROY_ID, destruction_of(listener)).value();
  settle();
  expect_event(0, CmEvent::rejected, 28);
  EXPECT_EQ(service_->counts().ids, 1u);
}

// As the kernel has it: who moves a listener finds its unseen requests there, and can use them by the old file only.
TEST_F(RdmaCmTest, RequestsOfAListenerThatMovesStayWithTheirFile) {
  const u32 listener = listen(1, 7174);
  ask(7174);
  const u32 old_file = files_[1], new_file = service_->open(1);
  move(listener, old_file, new_file);
  EXPECT_FALSE(readable_[old_file]);
  EXPECT_TRUE(readable_[new_file]);
  files_[1] = new_file;
  const rdma_ucm_event_resp request = event(1);
  EXPECT_EQ(request.event, static_cast<u32>(CmEvent::connect_request));
  EXPECT_EQ(error_of(1, RDMA_USER_CM_CMD_ACCEPT, confirmation_of(request.id)), EINVAL);
  EXPECT_EQ(error_of(1, RDMA_USER_CM_CMD_REJECT, rejection_of(request.id)), EINVAL);
  files_[1] = old_file;
  EXPECT_EQ(error_of(1, RDMA_USER_CM_CMD_REJECT, rejection_of(request.id)), 0);
  expect_event(0, CmEvent::rejected, 28);
}

TEST_F(RdmaCmTest, RequestsOfAListenerThatMovedGoWithTheirFile) {
  const u32 listener = listen(1, 7174, 1);
  ask(7174);
  const u32 old_file = files_[1], new_file = service_->open(1);
  move(listener, old_file, new_file);
  service_->close(old_file, now_);
  settle();
  expect_event(0, CmEvent::rejected, 28);
  EXPECT_FALSE(readable_[new_file]);
  files_[1] = new_file;
  EXPECT_EQ(error_of(1, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}), EAGAIN);
  ask(7174);  // there is room for it again
  EXPECT_EQ(event(1).event, static_cast<u32>(CmEvent::connect_request));
}

TEST_F(RdmaCmTest, WrongIdsStatesAndFilesAreRefused) {
  const u32 id = create(0);
  EXPECT_EQ(error_of(0, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id + 7, 0}), ENOENT);
  EXPECT_EQ(error_of(1, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, 0}), EINVAL);
  EXPECT_EQ(error_of(0, RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 1}), EINVAL);
  EXPECT_EQ(error_of(0, RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{id}), EINVAL);
  EXPECT_EQ(error_of(0, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}), EAGAIN);
  EXPECT_EQ(error_of(0, RDMA_USER_CM_CMD_GET_OPTION, rdma_ucm_set_option{}), ENOSYS);
  EXPECT_EQ(error_of(0, RDMA_USER_CM_CMD_QUERY, query_of(id, 9)), ENOSYS);
  EXPECT_EQ(error_of(0, RDMA_USER_CM_CMD_CREATE_ID, rdma_ucm_create_id{0, 0, 3, 0, {}}), EINVAL);
  rdma_ucm_connect early{};
  early.id = id;
  EXPECT_EQ(error_of(0, RDMA_USER_CM_CMD_CONNECT, early), EINVAL);
}

TEST_F(RdmaCmTest, AHostThatDiesForgetsItsConnections) {
  connect();
  service_->host_down(1);
  expect_event(1, CmEvent::device_removal);
  listen(1, 7174);
  ask(7174);
  EXPECT_EQ(event(1).event, static_cast<u32>(CmEvent::connect_request));
}

TEST_F(RdmaCmTest, AnHcaThatIsPulledOutTakesItsIdsAlong) {
  connect();
  listen(1, 7175);
  const u32 here = create(1);
  EXPECT_EQ(bind(1, here, fabric::default_address(1, 0), 7176), 0);
  EXPECT_EQ(error_of(1, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{here, 0}), 0);
  service_->device_down(2, 1, now_);
  cut_ = true;
  settle();
  cut_ = false;
  expect_event(1, CmEvent::device_removal);
  expect_event(1, CmEvent::device_removal);
  EXPECT_EQ(error_of(1, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}), EAGAIN);
  EXPECT_EQ(error_of(1, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{here, 0}), EIO);
  EXPECT_EQ(call<rdma_ucm_destroy_id_resp>(1, RDMA_USER_CM_CMD_DESTROY_ID, destruction_of(here))->events_reported, 1u);
  EXPECT_EQ(service_->counts().listening, 2u) << "who listens at all addresses has no HCA";
  const u32 again = create(1);
  EXPECT_EQ(bind(1, again, fabric::default_address(1, 0), 7176), 0) << "the port number is free";
}

// The library has no name for it yet.
TEST_F(RdmaCmTest, RequestsThatNobodySawHearNothingOfARemoval) {
  listen(1, 7174);
  ask(7174);
  service_->device_down(2, 1, now_);
  const rdma_ucm_event_resp request = event(1);
  EXPECT_EQ(request.event, static_cast<u32>(CmEvent::connect_request));
  EXPECT_EQ(error_of(1, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}), EAGAIN);
  EXPECT_EQ(error_of(1, RDMA_USER_CM_CMD_REJECT, rejection_of(request.id)), EIO);
}

class RdmaCmPartitions : public RdmaCmTest {
 protected:
  RdmaCmPartitions() : RdmaCmTest(ipc::LinkLayer::infiniband) {
    file_->segment().ports[1].state = ipc::PortState::active;
    file_->segment().ports[2].state = ipc::PortState::active;
  }

  // The other host's port by its GID, in a partition.
  int resolve_gid(u32 id, u16 pkey) {
    rdma_ucm_resolve_addr request{};
    request.id = id;
    request.timeout_ms = 2000;
    SocketAddress address = any_address(family_ib);
    std::memcpy(address.gid.data(), file_->segment().ports[2].gids[0].raw, address.gid.size());
    address.pkey = pkey;
    address.service_id = 0x0106'1c06;
    address.service_mask = ~0ULL;
    request.dst_size = static_cast<u16>(size_of_family(family_ib));
    emit_address(address, {reinterpret_cast<u8*>(&request.dst_addr), sizeof request.dst_addr});
    return error_of(0, RDMA_USER_CM_CMD_RESOLVE_ADDR, request);
  }

  int set_path(u32 id, u16 pkey) {
    cm::Path path;
    path.pkey = pkey;
    ib_path_rec_data data{};
    data.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
    const PathRecordBytes record = write_path(path);
    std::memcpy(data.path_rec, record.data(), record.size());
    const std::span<const u8> value(reinterpret_cast<const u8*>(&data), sizeof data);
    auto done = call(0, RDMA_USER_CM_CMD_SET_OPTION,
                     rdma_ucm_set_option{0, id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, sizeof data}, value);
    return done ? 0 : to_int(done.error());
  }
};

TEST_F(RdmaCmPartitions, NoPortOfTheCallerIsInThatOne) {
  EXPECT_EQ(resolve_gid(create(0), 0x8123), ENODEV);
  EXPECT_FALSE(readable_[files_[0]]);
  EXPECT_EQ(resolve_gid(create(0), 0xffff), 0);
  expect_event(0, CmEvent::address_resolved);
}

TEST_F(RdmaCmPartitions, APathOfAnotherOneLeadsNowhere) {
  const u32 id = create(0);
  ASSERT_EQ(resolve_gid(id, 0xffff), 0);
  expect_event(0, CmEvent::address_resolved);
  ASSERT_EQ(set_path(id, 0x8123), 0);
  expect_event(0, CmEvent::route_resolved);
  rdma_ucm_connect request{};
  request.id = id;
  request.conn_param = parameters(0x111);
  EXPECT_EQ(error_of(0, RDMA_USER_CM_CMD_CONNECT, request), ENOENT);
}

// Whatever has been done, the event loop may sleep once it has been looked after: until the next time-out, or for ever.
TEST(RdmaCmWires, RestOnceLookedAfter) {
  const fabric::Fabric fabric = fabric::default_fabric("test", ipc::LinkLayer::ethernet);
  const auto file = std::move(*SegmentFile::create());
  ASSERT_TRUE(populate(file->segment(), fabric));
  FakeWatcher watcher;
  RdmaCmWires wires(fabric, file->segment(), watcher, nullptr);
  auto opened = wires.open(0);
  ASSERT_TRUE(opened);
  rdma_ucm_create_id request{};
  request.uid = 1;
  request.ps = RDMA_PS_TCP;
  rdma_ucm_create_id_resp response{};
  RdmaCm::Command command;
  command.file = opened->file;
  command.number = RDMA_USER_CM_CMD_CREATE_ID;
  command.in = {reinterpret_cast<const u8*>(&request), sizeof request};
  command.out = {reinterpret_cast<u8*>(&response), sizeof response};
  command.now = 1;
  ASSERT_TRUE(wires.carry_out(command));
  EXPECT_TRUE(wires.is_touched());
  EXPECT_EQ(wires.advance(2), ~0ULL);
  EXPECT_FALSE(wires.is_touched());
  // To an address that nobody has: two seconds.
  rdma_ucm_resolve_ip wanted{};
  wanted.id = response.id;
  wanted.timeout_ms = 2000;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(0x0a004d4d);
  std::memcpy(&wanted.dst_addr, &to, sizeof to);
  command.number = RDMA_USER_CM_CMD_RESOLVE_IP;
  command.in = {reinterpret_cast<const u8*>(&wanted), sizeof wanted};
  ASSERT_TRUE(wires.carry_out(command));
  EXPECT_EQ(wires.advance(2), 2'000'000'001ULL);
  EXPECT_FALSE(wires.is_touched());
  opened->read.reset();
  wires.unread(opened->file, 3);
  EXPECT_EQ(wires.advance(3), ~0ULL);
  EXPECT_EQ(wires.service().counts().files, 0u);
}

}  // namespace
}  // namespace softib::daemon
