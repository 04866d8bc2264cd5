// Attaching, contexts, and the life of every kind of object but QPs.
#include <fcntl.h>

#include "abi/rxe.h"
#include "control_fixture.h"
#include "hca/limits.h"
#include "hca/rules/bits.h"

namespace softib::daemon {
namespace {

class ControlObjects : public ControlTest {};

ipc::Attach::Request good_attach() {
  ipc::Attach::Request request{};
  request.version = ipc::interface_version;
  request.size_of_qp = sizeof(ipc::Qp);
  std::strcpy(request.host, "host1");
  return request;
}

TEST_F(ControlObjects, TheFabricStands) {
  const auto& header = segment().header;
  EXPECT_EQ(header.magic, ipc::segment_magic);
  EXPECT_EQ(header.daemon_alive, 1U);
  EXPECT_EQ(header.device_count, 2U);
  EXPECT_EQ(header.port_count, 2U);
  for (u32 i : {1U, 2U}) {
    EXPECT_EQ(segment().ports[i].state, ipc::PortState::active);
    EXPECT_EQ(segment().port_of_lid[segment().ports[i].lid], i);
    EXPECT_EQ(segment().ports[i].pkeys[0], 0xffff);
    EXPECT_STREQ(segment().devices[i].name, "mlx5_0");
    EXPECT_EQ(segment().devices[i].host, i - 1);
  }
}

TEST_F(ControlObjects, AttachGivesASlotAndChecksVersions) {
  TestProcess process = attach("host1");
  EXPECT_EQ(process.attached.host, 1U);
  EXPECT_EQ(process.attached.segment_size, ipc::segment_size);
  const auto& record = segment().processes[process.attached.slot];
  EXPECT_EQ(record.state, ipc::ProcessState::live);
  EXPECT_EQ(record.generation, process.attached.generation);
  EXPECT_NE(record.agent.bounce_offset, 0U);
  EXPECT_GT(segment().header.process_limit, process.attached.slot);

  auto error_with = [&](auto change, Fd memory) {
    auto request = good_attach();
    change(request);
    auto reply = call<ipc::Attach>(control_->connect(1), 0, request, std::move(memory));
    return reply ? 0 : to_int(reply.error());
  };
  auto memory = [] { return Fd(::memfd_create("m", MFD_CLOEXEC)); };
  EXPECT_EQ(error_with([](auto&) {}, memory()), 0);
  EXPECT_EQ(error_with([](auto& r) { ++r.version; }, memory()), EPROTO);
  EXPECT_EQ(error_with([](auto& r) { ++r.size_of_qp; }, memory()), EPROTO);
  EXPECT_EQ(error_with([](auto& r) { std::strcpy(r.host, "host2"); }, memory()), ENODEV);
  EXPECT_EQ(error_with([](auto&) {}, Fd()), EINVAL);
  EXPECT_EQ(error_with([](auto&) {}, Fd(::open("/dev/null", O_RDWR))), EINVAL) << "no memory file";
  auto again = call<ipc::Attach>(process.peer, 0, good_attach(), memory());
  EXPECT_FALSE(again);
}

TEST_F(ControlObjects, ToolsGetNoSlot) {
  u32 peer = control_->connect(1);
  auto request = good_attach();
  request.is_tool = 1;
  auto reply = call<ipc::Attach>(peer, 0, request);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->slot, 0U);
  auto opened = call<ipc::OpenContext>(peer, 0, {1, 0});
  ASSERT_FALSE(opened);
  EXPECT_EQ(to_int(opened.error()), EPERM);
}

TEST_F(ControlObjects, ContextsOfOnesOwnHostOnly) {
  TestProcess process = attach("host0");
  EXPECT_FALSE(call<ipc::OpenContext>(process.peer, 0, {2, 0})) << "host1's device";
  EXPECT_FALSE(call<ipc::OpenContext>(process.peer, 0, {0, 0}));
  EXPECT_FALSE(call<ipc::OpenContext>(process.peer, 0, {0x7fffffff, 0}));
  open_device(process);
  EXPECT_EQ(watcher_.contexts.size(), 1U);
}

TEST_F(ControlObjects, ContextsAreFoundByTheInodeOfTheirCommandFd) {
  TestProcess owner = start("host0");
  TestProcess other = attach("host0");
  struct stat info {};
  ASSERT_EQ(::fstat(owner.command.get(), &info), 0);
  auto imported = call<ipc::ImportContext>(other.peer, 0, {info.st_ino});
  ASSERT_TRUE(imported);
  EXPECT_EQ(imported->context, owner.context);
  EXPECT_EQ(imported->device, 1U);
  auto unknown = call<ipc::ImportContext>(other.peer, 0, {info.st_ino + 12345});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(to_int(unknown.error()), EBADF);
  // Shared: the other process works in it.
  EXPECT_TRUE(call<ipc::AllocPd>(other.peer, imported->context, {}));
}

TEST_F(ControlObjects, TheLastCopyOfTheCommandFdEndsTheContext) {
  TestProcess process = start("host0");
  Connection c = make_qp(process);
  EXPECT_TRUE(call<ipc::CreateAh>(process, {c.pd, 0, attributes_for(ipc::QpType::rc, ipc::QpState::rtr).av}));
  EXPECT_TRUE(call<ipc::RegMr>(process, {c.pd, 1, 4096, 4096, 4096, 0, 0}));
  EXPECT_TRUE(call<ipc::AllocMw>(process, {c.pd, 1}));
  EXPECT_TRUE(call<ipc::CreateChannel>(process));
  u64 bounce = ipc::agent_bounce_size;
  EXPECT_GT(control_->arena().used_bytes(), bounce);
  control_->context_closed(process.context);
  settle();
  EXPECT_EQ(control_->arena().used_bytes(), bounce);
  EXPECT_TRUE(watcher_.contexts.empty());
  EXPECT_TRUE(watcher_.channels.empty());
  EXPECT_EQ(error_of<ipc::AllocPd>(process), EBADF);
  EXPECT_TRUE(control_->qps().all().empty() && control_->cqs().all().empty() && control_->keys().all().empty() &&
              control_->pds().all().empty() && control_->ahs().all().empty() && control_->channels().all().empty());
}

TEST_F(ControlObjects, ObjectsOfOtherContextsDoNotExist) {
  TestProcess a = start("host0");
  TestProcess b = start("host0");
  Connection c = make_qp(a);
  auto mr = call<ipc::RegMr>(a, {c.pd, 1, 4096, 4096, 4096, 0, 0});
  ASSERT_TRUE(mr);
  EXPECT_EQ(error_of<ipc::DeallocPd>(b, {c.pd}), EINVAL);
  EXPECT_EQ(error_of<ipc::DeregMr>(b, {mr->mr}), EINVAL);
  EXPECT_EQ(error_of<ipc::DestroyCq>(b, {c.cq}), EINVAL);
  EXPECT_EQ(error_of<ipc::DestroyQp>(b, {c.qpn}), EINVAL);
  EXPECT_EQ(error_of<ipc::QueryQp>(b, {c.qpn}), EINVAL);
  EXPECT_EQ(error_of<ipc::CreateQp>(b, qp_request(c.pd, c.cq, ipc::QpType::rc)), EINVAL);
  EXPECT_EQ(error_of<ipc::RegMr>(b, {c.pd, 1, 4096, 4096, 4096, 0, 0}), EINVAL);
}

TEST_F(ControlObjects, NothingGoesWhileItIsUsed) {
  TestProcess process = start("host0");
  u32 pd = make_pd(process);
  auto mr = call<ipc::RegMr>(process, {pd, 1, 4096, 4096, 4096, 0, 0});
  EXPECT_EQ(error_of<ipc::DeallocPd>(process, {pd}), EBUSY);
  EXPECT_EQ(error_of<ipc::DeregMr>(process, {mr->mr}), 0);
  auto srq = call<ipc::CreateSrq>(process, {pd, 10, 1, 0, 0});
  ASSERT_TRUE(srq);
  u32 cq = make_cq(process);
  auto request = qp_request(pd, cq, ipc::QpType::rc);
  request.srq = srq->srq;
  auto qp = call<ipc::CreateQp>(process, request);
  ASSERT_TRUE(qp);
  EXPECT_EQ(qp->rq_ring, 0U);
  EXPECT_EQ(error_of<ipc::DestroyCq>(process, {cq}), EBUSY);
  EXPECT_EQ(error_of<ipc::DestroySrq>(process, {srq->srq}), EBUSY);
  EXPECT_EQ(error_of<ipc::DeallocPd>(process, {pd}), EBUSY);
  EXPECT_EQ(error_of<ipc::DestroyQp>(process, {qp->qpn}), 0);
  EXPECT_EQ(error_of<ipc::DestroyCq>(process, {cq}), 0);
  EXPECT_EQ(error_of<ipc::DestroySrq>(process, {srq->srq}), 0);
  EXPECT_EQ(error_of<ipc::DeallocPd>(process, {pd}), 0);
  EXPECT_EQ(error_of<ipc::DeallocPd>(process, {pd}), EINVAL) << "gone";
}

// -- memory

TEST_F(ControlObjects, RegionsAndTheirKeys) {
  TestProcess process = start("host0");
  u32 pd = make_pd(process);
  EXPECT_EQ(error_of<ipc::RegMr>(process, {pd, 2, 4096, 4096, 4096, 0, 0}), EINVAL) << "remote write alone";
  EXPECT_EQ(error_of<ipc::RegMr>(process, {pd, 8, 4096, 4096, 4096, 0, 0}), EINVAL) << "remote atomic alone";
  EXPECT_EQ(error_of<ipc::RegMr>(process, {pd, 1, 4096, 4096, 0, 0, 0}), EINVAL) << "empty";
  auto mr = call<ipc::RegMr>(process, {pd, 7, 0x5000, 0x9000, 8192, 0xa000, 0xb000});
  ASSERT_TRUE(mr);
  EXPECT_EQ(mr->rkey >> 8, mr->mr);
  const ipc::Key& key = segment().keys[mr->mr];
  EXPECT_EQ(key.key, mr->rkey);
  EXPECT_EQ(key.kind, ipc::KeyKind::region);
  EXPECT_EQ(key.iova, 0x5000U);
  EXPECT_EQ(key.address, 0x9000U);
  EXPECT_EQ(key.length, 8192U);
  EXPECT_EQ(key.access, 7U);
  EXPECT_EQ(key.pd, pd);
  EXPECT_EQ(key.owner, process.attached.slot);
  EXPECT_EQ(key.owner_generation, process.attached.generation);
  EXPECT_EQ(key.shared_end, 0xb000U);
  EXPECT_EQ(error_of<ipc::DeregMr>(process, {mr->mr}), 0);
  EXPECT_EQ(key.key, 0U);
}

TEST_F(ControlObjects, AnIndexThatComesBackHasAnotherKey) {
  TestProcess process = start("host0");
  u32 pd = make_pd(process);
  std::map<u32, u32> last;
  int reused = 0;
  for (int i = 0; i < 10'000; ++i) {
    auto mr = call<ipc::RegMr>(process, {pd, 1, 4096, 4096, 4096, 0, 0});
    ASSERT_TRUE(mr);
    if (last.contains(mr->mr)) {
      ++reused;
      EXPECT_NE(last[mr->mr], mr->rkey);
    }
    last[mr->mr] = mr->rkey;
    ASSERT_EQ(error_of<ipc::DeregMr>(process, {mr->mr}), 0);
  }
  EXPECT_GT(reused, 0);
}

TEST_F(ControlObjects, Reregistration) {
  using hca::RemapFlag;
  TestProcess process = start("host0");
  u32 pd = make_pd(process);
  u32 other_pd = make_pd(process);
  auto mr = call<ipc::RegMr>(process, {pd, 1, 4096, 4096, 4096, 0, 0});
  const ipc::Key& key = segment().keys[mr->mr];
  auto rereg = [&](RemapFlag flags, ipc::RegMr::Request to) {
    return call<ipc::ReregMr>(process, {mr->mr, static_cast<u32>(flags), to});
  };
  auto rights = rereg(RemapFlag::access, {0, 3, 0, 0, 0, 0, 0});
  ASSERT_TRUE(rights);
  EXPECT_EQ(rights->rkey, mr->rkey) << "rights change in place";
  EXPECT_EQ(key.access, 3U);
  EXPECT_FALSE(rereg(RemapFlag::access, {0, 2, 0, 0, 0, 0, 0}));
  EXPECT_EQ(key.access, 3U);
  ASSERT_TRUE(rereg(RemapFlag::pd, {other_pd, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(key.pd, other_pd);
  EXPECT_EQ(error_of<ipc::DeallocPd>(process, {other_pd}), EBUSY);
  EXPECT_EQ(error_of<ipc::DeallocPd>(process, {pd}), 0);
  EXPECT_FALSE(rereg(RemapFlag::pd, {pd, 0, 0, 0, 0, 0, 0})) << "that PD is gone";
  auto moved = rereg(RemapFlag::translation, {0, 0, 0x7000, 0x7000, 100, 0, 0});
  ASSERT_TRUE(moved);
  EXPECT_NE(moved->rkey, mr->rkey);
  EXPECT_EQ(key.key, moved->rkey);
  EXPECT_EQ(key.length, 100U);
  EXPECT_EQ(key.access, 3U);
  EXPECT_FALSE(rereg(RemapFlag::none, {}));
  EXPECT_FALSE(rereg(static_cast<RemapFlag>(8), {}));
}

TEST_F(ControlObjects, Windows) {
  TestProcess process = start("host0");
  u32 pd = make_pd(process);
  EXPECT_EQ(error_of<ipc::AllocMw>(process, {pd, 0}), EINVAL);
  EXPECT_EQ(error_of<ipc::AllocMw>(process, {pd, 3}), EINVAL);
  auto mr = call<ipc::RegMr>(process, {pd, 0x11, 4096, 4096, 4096, 0, 0});
  auto mw = call<ipc::AllocMw>(process, {pd, 2});
  ASSERT_TRUE(mr && mw);
  ipc::Key& window = segment().keys[mw->mw];
  EXPECT_EQ(window.kind, ipc::KeyKind::window2);
  EXPECT_EQ(window.bound, 0);
  // As the data path binds it.
  window.region = mr->mr;
  window.bound = 1;
  segment().keys[mr->mr].windows = 1;
  EXPECT_EQ(error_of<ipc::DeregMr>(process, {mr->mr}), EBUSY) << "a window is bound";
  EXPECT_EQ(error_of<ipc::DeregMr>(process, {mw->mw}), EINVAL) << "no region";
  EXPECT_EQ(error_of<ipc::DeallocMw>(process, {mr->mr}), EINVAL) << "no window";
  EXPECT_EQ(error_of<ipc::DeallocMw>(process, {mw->mw}), 0);
  EXPECT_EQ(window.key, 0U);
  EXPECT_EQ(segment().keys[mr->mr].windows, 0U);
  EXPECT_EQ(error_of<ipc::DeregMr>(process, {mr->mr}), 0);
}

TEST_F(ControlObjects, AType2WindowGoesFreeWithItsQp) {
  TestProcess process = start("host0");
  Connection c = make_qp(process);
  auto mr = call<ipc::RegMr>(process, {c.pd, 0x11, 4096, 4096, 4096, 0, 0});
  auto mw = call<ipc::AllocMw>(process, {c.pd, 2});
  ipc::Key& window = segment().keys[mw->mw];
  window.region = mr->mr;
  window.qpn = c.qpn;
  window.bound = 1;
  segment().keys[mr->mr].windows = 1;
  EXPECT_EQ(error_of<ipc::DestroyQp>(process, {c.qpn}), 0);
  EXPECT_EQ(window.bound, 0);
  EXPECT_EQ(segment().keys[mr->mr].windows, 0U);
}

// -- completion queues

const rxe_queue_buf& ring_at(const ipc::Segment& segment, u64 offset) {
  return *reinterpret_cast<const rxe_queue_buf*>(segment.arena + offset);
}

TEST_F(ControlObjects, CqSizes) {
  TestProcess process = start("host0");
  EXPECT_EQ(error_of<ipc::CreateCq>(process, {0, 0, 0, 0, 0}), EINVAL);
  EXPECT_EQ(error_of<ipc::CreateCq>(process, {hca::limits::max_cqe + 1, 0, 0, 0, 0}), EINVAL);
  EXPECT_EQ(error_of<ipc::CreateCq>(process, {1, 0, hca::limits::max_comp_vectors, 0, 0}), EINVAL);
  EXPECT_EQ(error_of<ipc::CreateCq>(process, {1, 0, 0, 1, 0}), EOPNOTSUPP);
  EXPECT_EQ(error_of<ipc::CreateCq>(process, {1, 99, 0, 0, 0}), EINVAL) << "no such channel";
  EXPECT_EQ(error_of<ipc::CreateCq>(process, {hca::limits::max_cqe, 0, 0, 0, 0}), 0);
  auto cq = call<ipc::CreateCq>(process, {100, 0, 0, 0, 0x77});
  ASSERT_TRUE(cq);
  EXPECT_EQ(cq->entries, 127U);
  EXPECT_EQ(cq->ring_size % ipc::page_size, 0U);
  EXPECT_EQ(cq->ring % ipc::page_size, 0U);
  EXPECT_EQ(ring_at(segment(), cq->ring).index_mask, 127U);
  EXPECT_EQ(ring_at(segment(), cq->ring).log2_elem_size, 6U);
  const ipc::Cq& record = segment().cqs[cq->cq];
  EXPECT_EQ(record.mask, 127U);
  EXPECT_EQ(record.ring, cq->ring);
  EXPECT_EQ(record.user_handle, 0x77U);
  EXPECT_NE(record.generation, 0U);
  EXPECT_GT(segment().header.cq_limit, cq->cq);
}

TEST_F(ControlObjects, CqResize) {
  TestProcess process = start("host0");
  auto cq = call<ipc::CreateCq>(process, {100, 0, 0, 0, 0});
  EXPECT_EQ(error_of<ipc::ResizeCq>(process, {cq->cq, 0}), EINVAL);
  auto larger = call<ipc::ResizeCq>(process, {cq->cq, 200});
  ASSERT_TRUE(larger);
  EXPECT_EQ(larger->entries, 255U);
  EXPECT_EQ(error_of<ipc::ResizeCq>(process, {cq->cq, 300}), EBUSY) << "one at a time";
  EXPECT_EQ(error_of<ipc::FreeRing>(process, {cq->ring}), EINVAL) << "in use";
  EXPECT_EQ(error_of<ipc::FreeRing>(process, {12345}), EINVAL);
  // The owner has moved over.
  segment().cqs[cq->cq].ring = larger->ring;
  segment().cqs[cq->cq].mask = 255;
  EXPECT_EQ(error_of<ipc::FreeRing>(process, {cq->ring}), 0);
  EXPECT_EQ(error_of<ipc::FreeRing>(process, {cq->ring}), EINVAL) << "twice";
  // A move that was refused.
  auto smaller = call<ipc::ResizeCq>(process, {cq->cq, 1});
  ASSERT_TRUE(smaller);
  EXPECT_EQ(error_of<ipc::FreeRing>(process, {smaller->ring}), 0);
  settle();
  EXPECT_EQ(control_->arena().bytes_at(cq->ring), 0U);
  EXPECT_NE(control_->arena().bytes_at(larger->ring), 0U);
  EXPECT_EQ(error_of<ipc::DestroyCq>(process, {cq->cq}), 0);
  settle();
  EXPECT_EQ(control_->arena().used_bytes(), ipc::agent_bounce_size);
}

TEST_F(ControlObjects, RingsComeBackAsZeroes) {
  TestProcess process = start("host0");
  auto first = call<ipc::CreateCq>(process, {1000, 0, 0, 0, 0});
  std::memset(segment().arena + first->ring, 0xee, first->ring_size);
  EXPECT_EQ(error_of<ipc::DestroyCq>(process, {first->cq}), 0);
  settle();
  auto second = call<ipc::CreateCq>(process, {1000, 0, 0, 0, 0});
  ASSERT_EQ(second->ring, first->ring);
  auto* bytes = segment().arena + second->ring;
  for (u32 i = abi::ring_head_size; i < second->ring_size; ++i) ASSERT_EQ(bytes[i], 0);
}

// -- shared receive queues

TEST_F(ControlObjects, Srqs) {
  TestProcess process = start("host0");
  u32 pd = make_pd(process);
  EXPECT_EQ(error_of<ipc::CreateSrq>(process, {pd, 0, 1, 0, 0}), EINVAL);
  EXPECT_EQ(error_of<ipc::CreateSrq>(process, {pd, hca::limits::max_srq_wr + 1, 1, 0, 0}), EINVAL);
  EXPECT_EQ(error_of<ipc::CreateSrq>(process, {pd, 1, hca::limits::max_srq_sge + 1, 0, 0}), EINVAL);
  auto srq = call<ipc::CreateSrq>(process, {pd, 100, 2, 0, 9});
  ASSERT_TRUE(srq);
  EXPECT_EQ(srq->max_wr, 127U);
  EXPECT_EQ(srq->max_sge, 2U);
  EXPECT_EQ(ring_at(segment(), srq->ring).log2_elem_size, 7U);
  using hca::SrqAttr;
  auto modify = [&](SrqAttr mask, u32 max_wr, u32 limit) {
    return call<ipc::ModifySrq>(process, {srq->srq, static_cast<u32>(mask), max_wr, limit});
  };
  EXPECT_TRUE(modify(SrqAttr::limit, 0, 7));
  EXPECT_EQ(call<ipc::QuerySrq>(process, {srq->srq})->limit, 7U);
  EXPECT_FALSE(modify(SrqAttr::limit, 0, 128)) << "more than it holds";
  EXPECT_FALSE(modify(SrqAttr::max_wr, 6, 0)) << "less than the limit";
  EXPECT_FALSE(modify(SrqAttr::max_wr, 0, 0));
  EXPECT_FALSE(modify(static_cast<SrqAttr>(4), 0, 0));
  auto resized = modify(SrqAttr::max_wr, 200, 0);
  ASSERT_TRUE(resized);
  EXPECT_EQ(resized->max_wr, 255U);
  segment().srqs[srq->srq].ring = resized->ring;
  segment().srqs[srq->srq].mask = 255;
  EXPECT_EQ(error_of<ipc::FreeRing>(process, {srq->ring}), 0);
  EXPECT_EQ(call<ipc::QuerySrq>(process, {srq->srq})->max_wr, 255U);
  EXPECT_EQ(error_of<ipc::DestroySrq>(process, {srq->srq}), 0);
  settle();
  EXPECT_EQ(control_->arena().used_bytes(), ipc::agent_bounce_size);
}

// -- address handles and groups

ipc::AddressVector unicast(u16 lid) {
  ipc::AddressVector av{};
  av.port_num = 1;
  av.dlid = lid;
  return av;
}

ipc::AddressVector multicast(u16 lid, u8 last) {
  ipc::AddressVector av = unicast(lid);
  av.is_global = 1;
  av.dgid.raw[0] = 0xff;
  av.dgid.raw[15] = last;
  return av;
}

TEST_F(ControlObjects, AddressHandlesResolve) {
  TestProcess process = start("host0");
  u32 pd = make_pd(process);
  auto record = [&](const ipc::AddressVector& av) -> const ipc::Ah& {
    auto ah = call<ipc::CreateAh>(process, {pd, 0, av});
    EXPECT_TRUE(ah);
    return segment().ahs[ah->ah];
  };
  const ipc::Ah& reachable = record(unicast(segment().ports[2].lid));
  EXPECT_EQ(reachable.port, 1U);
  EXPECT_EQ(reachable.av.port, 2U);
  EXPECT_EQ(reachable.av.group, 0U);
  EXPECT_EQ(reachable.av.route_epoch, segment().header.route_epoch);
  EXPECT_EQ(record(unicast(0x1234)).av.port, 0U) << "nobody has this LID";
  EXPECT_EQ(error_of<ipc::CreateAh>(process, {pd, 0, unicast(0)}), EINVAL);
  ipc::AddressVector wrong_port = unicast(1);
  wrong_port.port_num = 2;
  EXPECT_EQ(error_of<ipc::CreateAh>(process, {pd, 0, wrong_port}), EINVAL);
  wrong_port.port_num = 0;
  EXPECT_EQ(error_of<ipc::CreateAh>(process, {pd, 0, wrong_port}), EINVAL);
  ipc::AddressVector wrong_gid = unicast(1);
  wrong_gid.is_global = 1;
  wrong_gid.sgid_index = 200;
  EXPECT_EQ(error_of<ipc::CreateAh>(process, {pd, 0, wrong_gid}), EINVAL);
}

std::vector<u32> members_of(const ipc::Segment& segment, u32 group) {
  const ipc::Group& record = segment.groups[group];
  auto* list = reinterpret_cast<const u32*>(segment.arena + record.members.load());
  return {list, list + record.member_count.load()};
}

TEST_F(ControlObjects, MulticastGroups) {
  TestProcess process = start("host0");
  Connection first = make_qp(process, ipc::QpType::ud);
  Connection second = make_qp(process, ipc::QpType::ud);
  auto av = multicast(0xC001, 1);
  auto ah = call<ipc::CreateAh>(process, {first.pd, 0, av});
  ASSERT_TRUE(ah);
  u32 group = segment().ahs[ah->ah].av.group;
  ASSERT_NE(group, 0U) << "made before it has members";
  EXPECT_EQ(segment().groups[group].member_count, 0U);
  auto join = [&](u32 qpn, const ipc::AddressVector& to) {
    return error_of<ipc::AttachMulticast>(process, {qpn, to.dlid, 0, to.dgid});
  };
  auto leave = [&](u32 qpn, const ipc::AddressVector& from) {
    return error_of<ipc::DetachMulticast>(process, {qpn, from.dlid, 0, from.dgid});
  };
  EXPECT_EQ(join(first.qpn, av), 0);
  EXPECT_EQ(join(second.qpn, av), 0);
  EXPECT_EQ(join(second.qpn, av), 0) << "a member stays one";
  EXPECT_EQ(members_of(segment(), group), (std::vector<u32>{first.qpn, second.qpn}));
  EXPECT_EQ(segment().groups[group].sequence % 2, 0U);
  EXPECT_EQ(error_of<ipc::DestroyQp>(process, {first.qpn}), EBUSY);
  EXPECT_EQ(leave(first.qpn, multicast(0xC001, 2)), EINVAL);
  EXPECT_EQ(leave(first.qpn, multicast(0xC002, 1)), EINVAL);
  EXPECT_EQ(leave(first.qpn, av), 0);
  EXPECT_EQ(leave(first.qpn, av), EINVAL);
  EXPECT_EQ(members_of(segment(), group), std::vector<u32>{second.qpn});
  EXPECT_EQ(error_of<ipc::DestroyQp>(process, {first.qpn}), 0);
  EXPECT_EQ(join(second.qpn, unicast(1)), EINVAL) << "no group's GID";
  Connection connected = make_qp(process, ipc::QpType::rc);
  EXPECT_EQ(join(connected.qpn, av), EINVAL) << "datagrams only";
  EXPECT_EQ(leave(second.qpn, av), 0);
  EXPECT_EQ(control_->groups().all().size(), 1U) << "the address handle keeps it";
  EXPECT_EQ(error_of<ipc::DestroyAh>(process, {ah->ah}), 0);
  EXPECT_TRUE(control_->groups().all().empty());
}

TEST_F(ControlEthernet, GidsLeadToPorts) {
  TestProcess process = start("host0");
  u32 pd = make_pd(process);
  const ipc::Port& peer = segment().ports[2];
  EXPECT_EQ(peer.lid, 0);
  EXPECT_EQ(peer.link_layer, ipc::LinkLayer::ethernet);
  ASSERT_GE(peer.gid_count, 4);
  for (u32 i = 0; i < peer.gid_count; ++i) {
    ipc::AddressVector av{};
    av.port_num = 1;
    av.is_global = 1;
    av.sgid_index = static_cast<u8>(i);
    av.dgid = peer.gids[i];
    auto ah = call<ipc::CreateAh>(process, {pd, 0, av});
    ASSERT_TRUE(ah);
    EXPECT_EQ(segment().ahs[ah->ah].av.port, 2U) << i;
  }
  ipc::AddressVector no_grh{};
  no_grh.port_num = 1;
  EXPECT_EQ(error_of<ipc::CreateAh>(process, {pd, 0, no_grh}), EINVAL);
}

TEST_F(ControlEthernet, GroupsGoByGidAlone) {
  TestProcess process = start("host0");
  Connection c = make_qp(process, ipc::QpType::ud);
  auto av = multicast(0, 5);
  auto ah = call<ipc::CreateAh>(process, {c.pd, 0, av});
  ASSERT_TRUE(ah);
  EXPECT_EQ(error_of<ipc::AttachMulticast>(process, {c.qpn, 0xC123, 0, av.dgid}), 0);
  EXPECT_EQ(members_of(segment(), segment().ahs[ah->ah].av.group), std::vector<u32>{c.qpn});
}

}  // namespace
}  // namespace softib::daemon
