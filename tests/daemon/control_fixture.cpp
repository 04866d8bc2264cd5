#include "control_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include "hca/rules/bits.h"

namespace softib::daemon {

using hca::QpAttr;
using ipc::QpState;
using ipc::QpType;

ControlTest::ControlTest(ipc::LinkLayer layer) : layer_(layer) {
  spdlog::set_level(spdlog::level::off);
  ::signal(SIGPIPE, SIG_IGN);  // as softibd does
  control_ = std::move(*Control::create(fabric::default_fabric("test", layer), watcher_));
  control_->advance(1);  // the subnet comes up
}

ControlTest::~ControlTest() = default;

TestProcess ControlTest::attach(const char* host) {
  TestProcess process;
  process.peer = control_->connect(::getpid());
  Fd memory(::memfd_create("test-memory", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(memory.get(), 1L << 47), 0);
  process.memory = Fd(::dup(memory.get()));
  ipc::Attach::Request request{};
  request.version = ipc::interface_version;
  request.size_of_qp = sizeof(ipc::Qp);
  std::strncpy(request.host, host, sizeof request.host - 1);
  std::strncpy(request.program, "test", sizeof request.program - 1);
  Fd segment_fd;
  auto reply = call<ipc::Attach>(process.peer, 0, request, std::move(memory), &segment_fd);
  EXPECT_TRUE(reply);
  EXPECT_TRUE(segment_fd);
  if (reply) process.attached = *reply;
  return process;
}

void ControlTest::open_device(TestProcess& process) {
  auto opened = call<ipc::OpenContext>(process.peer, 0, {process.attached.host + 1, 0}, {}, &process.command);
  ASSERT_TRUE(opened);
  process.context = opened->context;
}

TestProcess ControlTest::start(const char* host) {
  TestProcess process = attach(host);
  open_device(process);
  EXPECT_TRUE(call<ipc::AllocAsyncFd>(process.peer, process.context, {}, {}, &process.async));
  return process;
}

void ControlTest::die(TestProcess& process) {
  control_->disconnect(process.peer);
  control_->context_closed(process.context);
  process.command.reset();
  process.async.reset();
  process.memory.reset();
}

void ControlTest::settle() {
  for (int i = 0; i < 10 && control_->tick(); ++i) continue;
}

u32 ControlTest::make_pd(const TestProcess& process) { return call<ipc::AllocPd>(process)->pd; }

u32 ControlTest::make_cq(const TestProcess& process, u32 entries, u32 channel) {
  return call<ipc::CreateCq>(process, {entries, channel, 0, 0, 0xc0})->cq;
}

ipc::CreateQp::Request ControlTest::qp_request(u32 pd, u32 cq, QpType type) const {
  ipc::CreateQp::Request request{};
  request.pd = pd;
  request.send_cq = request.recv_cq = cq;
  request.type = type;
  request.caps = {8, 8, 1, 1, 0};
  request.user_handle = 0xabc;
  return request;
}

ControlTest::Connection ControlTest::make_qp(const TestProcess& process, QpType type, u32 srq) {
  Connection made{make_pd(process), make_cq(process), 0};
  auto request = qp_request(made.pd, made.cq, type);
  request.srq = srq;
  auto reply = call<ipc::CreateQp>(process, request);
  EXPECT_TRUE(reply);
  made.qpn = reply ? reply->qpn : 0;
  return made;
}

ipc::QpAttributes ControlTest::attributes_for(QpType type, QpState to) const {
  ipc::QpAttributes a{};
  QpAttr mask = QpAttr::state;
  bool connected = type != QpType::ud;
  bool reliable = type == QpType::rc;
  if (to == QpState::init)
    mask = mask | QpAttr::pkey_index | QpAttr::port | (connected ? QpAttr::access_flags : QpAttr::qkey);
  if (to == QpState::rtr && connected) mask = mask | QpAttr::av | QpAttr::path_mtu | QpAttr::dest_qpn | QpAttr::rq_psn;
  if (to == QpState::rtr && reliable) mask = mask | QpAttr::max_dest_rd_atomic | QpAttr::min_rnr_timer;
  if (to == QpState::rts) mask = mask | QpAttr::sq_psn;
  if (to == QpState::rts && reliable)
    mask = mask | QpAttr::timeout | QpAttr::retry_count | QpAttr::rnr_retry | QpAttr::max_rd_atomic;
  a.mask = static_cast<u32>(mask);
  a.qp_state = static_cast<u32>(to);
  a.port_num = 1;
  a.access_flags = 0xf;
  a.qkey = 0x1234;
  a.path_mtu = 3;
  a.dest_qp_num = 0x4567;
  a.rq_psn = 0x1a2b3c;
  a.sq_psn = 0x123456;
  a.max_rd_atomic = a.max_dest_rd_atomic = 12;
  a.min_rnr_timer = 12;
  a.timeout = 14;
  a.retry_count = 7;
  a.rnr_retry = 6;
  a.av.port_num = 1;
  const ipc::Port& peer = control_->segment().ports[2];
  if (layer_ == ipc::LinkLayer::infiniband) {
    a.av.dlid = peer.lid;
  } else {
    a.av.is_global = 1;
    a.av.dgid = peer.gids[0];
  }
  return a;
}

int ControlTest::modify(const TestProcess& process, u32 qpn, const ipc::QpAttributes& attributes) {
  return error_of<ipc::ModifyQp>(process, {qpn, 0, attributes});
}

void ControlTest::bring_to(const TestProcess& process, u32 qpn, QpType type, QpState to) {
  for (QpState step : {QpState::init, QpState::rtr, QpState::rts}) {
    ASSERT_EQ(modify(process, qpn, attributes_for(type, step)), 0) << static_cast<u32>(step);
    if (step == to) return;
  }
}

}  // namespace softib::daemon
