// Whatever a process sends, and whatever it writes into the segment, softibd lives and serves the others.
#include <random>

#include "control_fixture.h"

namespace softib::daemon {
namespace {

class ControlHostile : public ControlTest {
 protected:
  int send(u32 peer, const std::vector<u8>& message) { return control_->handle(peer, message).header.error; }

  static std::vector<u8> message(u32 op, u32 context, size_t body) {
    std::vector<u8> bytes(8 + body);
    std::memcpy(bytes.data(), &op, 4);
    std::memcpy(bytes.data() + 4, &context, 4);
    return bytes;
  }

  static constexpr u32 last_op = static_cast<u32>(ipc::Op::machine_socket);
};

TEST_F(ControlHostile, SizesAreExact) {
  TestProcess process = start("host0");
  EXPECT_EQ(send(process.peer, {}), EINVAL);
  EXPECT_EQ(send(process.peer, std::vector<u8>(7)), EINVAL);
  EXPECT_EQ(send(process.peer, message(0, process.context, 0)), ENOSYS);
  EXPECT_EQ(send(process.peer, message(last_op + 1, process.context, 0)), ENOSYS);
  EXPECT_EQ(send(process.peer, message(~0U, process.context, 0)), ENOSYS);
  for (u32 op = 2; op <= last_op; ++op)
    for (size_t size : {1UL, 3UL, 1000UL, 20'000UL})
      EXPECT_EQ(send(process.peer, message(op, process.context, size)), EINVAL) << op << " with " << size;
  EXPECT_EQ(send(process.peer, message(static_cast<u32>(ipc::Op::attach), 0, 5)), EPROTO);
  for (u32 op = 2; op <= last_op; ++op) {
    if (op == static_cast<u32>(ipc::Op::open_rdma_cm)) continue;  // wants neither a context nor a body
    EXPECT_NE(send(process.peer, message(op, 0xdead, 0)), 0) << op;
  }
}

TEST_F(ControlHostile, NothingBeforeAttach) {
  u32 peer = control_->connect(1);
  for (u32 op = 2; op <= last_op; ++op) {
    const bool for_anybody = op == static_cast<u32>(ipc::Op::prepare_host) ||
                             op == static_cast<u32>(ipc::Op::read_counter) ||
                             op == static_cast<u32>(ipc::Op::machine_socket);
    EXPECT_EQ(send(peer, message(op, 1, 0)), for_anybody ? EINVAL : ENOTCONN) << op;
  }
  EXPECT_EQ(send(12345, message(2, 1, 0)), ENOTCONN) << "no such peer";
}

// Random requests of the right size with small and wild numbers, so that many get past the first checks.
TEST_F(ControlHostile, RandomRequests) {
  u64 seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr std::array sizes{sizeof(ipc::Attach::Request),
                             sizeof(ipc::OpenContext::Request),
                             sizeof(ipc::ImportContext::Request),
                             0UL,
                             0UL,
                             sizeof(ipc::DeallocPd::Request),
                             sizeof(ipc::RegMr::Request),
                             sizeof(ipc::ReregMr::Request),
                             sizeof(ipc::DeregMr::Request),
                             sizeof(ipc::AllocMw::Request),
                             sizeof(ipc::DeallocMw::Request),
                             0UL,
                             sizeof(ipc::CreateCq::Request),
                             sizeof(ipc::ResizeCq::Request),
                             sizeof(ipc::DestroyCq::Request),
                             sizeof(ipc::CreateSrq::Request),
                             sizeof(ipc::ModifySrq::Request),
                             sizeof(ipc::QuerySrq::Request),
                             sizeof(ipc::DestroySrq::Request),
                             sizeof(ipc::CreateQp::Request),
                             sizeof(ipc::ModifyQp::Request),
                             sizeof(ipc::QueryQp::Request),
                             sizeof(ipc::DestroyQp::Request),
                             sizeof(ipc::CreateAh::Request),
                             sizeof(ipc::DestroyAh::Request),
                             sizeof(ipc::AttachMulticast::Request),
                             sizeof(ipc::DetachMulticast::Request),
                             sizeof(ipc::FreeRing::Request),
                             sizeof(ipc::ChannelFd::Request),
                             sizeof(ipc::MemoryFd::Request),
                             sizeof(ipc::RaiseEvent::Request),
                             sizeof(ipc::Status::Request),
                             sizeof(ipc::ListHandles::Request),
                             sizeof(ipc::FindRoute::Request),
                             sizeof(ipc::ReportViolation::Request),
                             sizeof(ipc::OpenUmad::Request),
                             sizeof(ipc::UmadRegister::Request),
                             sizeof(ipc::UmadUnregister::Request),
                             sizeof(ipc::Fault::Request),
                             sizeof(ipc::PrepareHost::Request),
                             sizeof(ipc::ReadCounter::Request),
                             0UL,
                             sizeof(ipc::RdmaCmCommand::Request),
                             sizeof(ipc::SetAddresses::Request),
                             sizeof(ipc::MachineSocket::Request)};
  static_assert(sizes.size() == last_op);
  int carried_out = 0;
  for (int round = 0; round < 20; ++round) {
    TestProcess process = start("host0");
    for (int i = 0; i < 2000; ++i) {
      u32 op = 1 + static_cast<u32>(random() % last_op);
      auto bytes = message(op, process.context, sizes[op - 1]);
      for (size_t at = 8; at < bytes.size(); at += 1 + random() % 8)
        bytes[at] = static_cast<u8>(random() % 4 ? random() % 24 : random());
      carried_out += send(process.peer, bytes) == 0;
      if (random() % 64 == 0) control_->tick();
    }
    die(process);
    settle();
  }
  EXPECT_GT(carried_out, 1000);
  EXPECT_TRUE(control_->qps().all().empty() && control_->keys().all().empty() && control_->groups().all().empty());
  EXPECT_EQ(control_->arena().used_bytes(), 0U);
}

// Another process of the user scribbles over every record while softibd works.
TEST_F(ControlHostile, ASegmentFullOfGarbage) {
  u64 seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 30; ++round) {
    TestProcess process = start("host0");
    Connection c = make_qp(process, ipc::QpType::ud);
    auto mr = call<ipc::RegMr>(process, {c.pd, 0x11, 4096, 4096, 4096, 0, 0});
    auto mw = call<ipc::AllocMw>(process, {c.pd, 2});
    auto scribble = [&](auto& record) {
      for (size_t at = 0; at < sizeof record; ++at)
        if (random() % 2) reinterpret_cast<u8*>(&record)[at] = static_cast<u8>(random());
    };
    scribble(segment().qps[c.qpn]);
    scribble(segment().cqs[c.cq]);
    scribble(segment().keys[mr->mr]);
    scribble(segment().keys[mw->mw]);
    if (random() % 2) segment().qps[c.qpn].responder.lock.holder = process.attached.slot;
    if (random() % 2) segment().cqs[c.cq].lock.holder = process.attached.slot;
    segment().qps[c.qpn].responder.claimed = static_cast<u32>(random() % 4);
    (void)call<ipc::QueryQp>(process, {c.qpn});
    for (ipc::QpState to : {ipc::QpState::reset, ipc::QpState::init, ipc::QpState::rtr, ipc::QpState::rts})
      (void)modify(process, c.qpn, attributes_for(ipc::QpType::ud, to));
    (void)call<ipc::DeallocMw>(process, {mw->mw});
    (void)call<ipc::DestroyQp>(process, {c.qpn});
    // Devices and ports are written once; their copies in the segment may be spoilt like the rest.
    if (round == 15) {
      scribble(segment().devices[1]);
      scribble(segment().ports[1]);
      (void)call<ipc::Status>(process);
      (void)call<ipc::CreateAh>(process, {c.pd, 0, attributes_for(ipc::QpType::rc, ipc::QpState::rtr).av});
      die(process);
      return;
    }
    die(process);
    settle();
  }
}

}  // namespace
}  // namespace softib::daemon
