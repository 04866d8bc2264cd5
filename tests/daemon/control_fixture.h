// A Control without sockets, and processes that talk to it.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "daemon/control.h"
#include "ipc/client.h"

namespace softib::daemon {

class FakeWatcher : public Watcher {
 public:
  void watch_context(u32 context, int fd) override { contexts[fd] = context; }
  void watch_channel(u32 channel, int fd) override { channels[fd] = channel; }
  void watch_umad(u32 file, int fd) override { umads[fd] = file; }
  void watch_rdma_cm(u32 file, int fd) override { rdma_cms[fd] = file; }
  void forget(int fd) override {
    umads.erase(fd);
    contexts.erase(fd);
    channels.erase(fd);
  }
  bool kill(u32 peer) override {
    killed.push_back(peer);
    return true;
  }
  bool run_stock_managers(bool run) override {
    stock_managers_run = run;
    return true;
  }
  bool run_aggregation(bool run) override {
    aggregation_runs = run;
    return true;
  }
  bool stock_managers_run = true;
  bool aggregation_runs = true;
  std::map<int, u32> contexts;
  std::map<int, u32> channels;
  std::map<int, u32> umads;
  std::map<int, u32> rdma_cms;
  std::vector<u32> killed;
};

// A process of the fabric with one open device.
struct TestProcess {
  u32 peer = 0;
  ipc::Attach::Reply attached{};
  Fd memory;  // the test's own view of the memory file
  u32 context = 0;
  Fd command;
  Fd async;
};

class ControlTest : public ::testing::Test {
 protected:
  explicit ControlTest(ipc::LinkLayer layer = ipc::LinkLayer::infiniband);
  ~ControlTest() override;

  // The answer, or the errno.
  template <typename Call>
  Result<typename Call::Reply> call(u32 peer, u32 context, const typename Call::Request& request, Fd send = {},
                                    Fd* received = nullptr) {
    struct {
      ipc::RequestHeader header;
      std::array<u8, sizeof(typename Call::Request)> body;
    } message;
    message.header = {Call::op, context};
    std::memcpy(message.body.data(), &request, sizeof request);
    size_t size = sizeof message.header + ipc::payload_size<typename Call::Request>;
    Reply reply = control_->handle(peer, {reinterpret_cast<const u8*>(&message), size}, std::move(send));
    if (received) *received = std::move(reply.fd);
    if (reply.header.error) return fail(reply.header.error);
    typename Call::Reply answer{};
    EXPECT_EQ(reply.body.size(), ipc::payload_size<typename Call::Reply>);
    if (!reply.body.empty()) std::memcpy(&answer, reply.body.data(), reply.body.size());
    return answer;
  }

  template <typename Call>
  Result<typename Call::Reply> call(const TestProcess& process, const typename Call::Request& request = {}) {
    return call<Call>(process.peer, process.context, request);
  }

  // The errno of a call; 0 = it was carried out.
  template <typename Call>
  int error_of(const TestProcess& process, const typename Call::Request& request = {}) {
    auto result = call<Call>(process, request);
    return result ? 0 : to_int(result.error());
  }

  TestProcess attach(const char* host);
  TestProcess start(const char* host);  // attached, device opened, async fd made
  void open_device(TestProcess& process);
  void die(TestProcess& process);  // its descriptors close, as on SIGKILL
  void settle();                   // deferred work done

  struct Connection {
    u32 pd = 0;
    u32 cq = 0;
    u32 qpn = 0;
  };
  Connection make_qp(const TestProcess& process, ipc::QpType type = ipc::QpType::rc, u32 srq = 0);
  u32 make_pd(const TestProcess& process);
  u32 make_cq(const TestProcess& process, u32 entries = 16, u32 channel = 0);
  ipc::CreateQp::Request qp_request(u32 pd, u32 cq, ipc::QpType type) const;

  // modify_qp with what the transition asks for; `change` may bend it.
  ipc::QpAttributes attributes_for(ipc::QpType type, ipc::QpState to) const;
  int modify(const TestProcess& process, u32 qpn, const ipc::QpAttributes& attributes);
  void bring_to(const TestProcess& process, u32 qpn, ipc::QpType type, ipc::QpState to);

  [[nodiscard]] ipc::Segment& segment() { return control_->segment(); }
  [[nodiscard]] ipc::Qp& qp(u32 qpn) { return segment().qps[qpn]; }

  ipc::LinkLayer layer_;
  FakeWatcher watcher_;
  std::unique_ptr<Control> control_;
};

class ControlEthernet : public ControlTest {
 protected:
  ControlEthernet() : ControlTest(ipc::LinkLayer::ethernet) {}
};

}  // namespace softib::daemon
