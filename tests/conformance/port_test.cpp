// Row 22: events of a port. Only the operator of the fabric can cause them, so a command is asked for (--port-control):
// it is called with one of: down | up | lid | pkey | reregister, and must do that to port `--port` of the first end.
#include <cstdlib>

#include "support.h"

namespace conformance {
namespace {

class R22Port : public Conformance {
 protected:
  void SetUp() override {
    if (options().port_control.empty()) GTEST_SKIP() << "no --port-control command";
    a().reset();
  }

  // False where the command says (status 77) that this change isn't possible on this port.
  static bool control(const std::string& what) {
    const int status = std::system((options().port_control + " " + what).c_str());
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return false;
    EXPECT_EQ(status, 0) << options().port_control << " " << what;
    return true;
  }

  void expect_event(ibv_event_type type) {
    const Event event = wait_for(a(), type, patience(10000));
    ASSERT_FALSE(event.none) << "no " << ibv_event_type_str(type);
    EXPECT_EQ(event.port, options().port);
  }
};

TEST_F(R22Port, DownAndUp) {
  if (!control("down")) GTEST_SKIP() << "the port cannot be taken down";
  expect_event(IBV_EVENT_PORT_ERR);
  EXPECT_NE(a().info().port.state, IBV_PORT_ACTIVE);
  control("up");
  expect_event(IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(a().info().port.state, IBV_PORT_ACTIVE);
  Pair pair(a(), b());
  expect_traffic(pair);
}

TEST_F(R22Port, TrafficWhileDown) {
  Spec spec;
  spec.timeout = 14;
  spec.retry = 2;
  Pair pair(a(), b(), spec);
  if (!control("down")) GTEST_SKIP() << "the port cannot be taken down";
  ASSERT_EQ(pair.a.post(send_wr(1, {pair.a.buffer.sge(0, 8)})).error, 0);
  const auto wcs = pair.a.sent(1, patience());
  control("up");
  expect_wc(wcs, 1, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(R22Port, LidChange) {
  if (!control("lid")) GTEST_SKIP() << "the port has no LID to change";
  expect_event(IBV_EVENT_LID_CHANGE);
}

TEST_F(R22Port, PkeyChange) {
  if (!control("pkey")) GTEST_SKIP() << "the P_Key table cannot be changed";
  expect_event(IBV_EVENT_PKEY_CHANGE);
}

TEST_F(R22Port, ClientReregister) {
  if (!control("reregister")) GTEST_SKIP() << "there is no subnet manager that could ask";
  expect_event(IBV_EVENT_CLIENT_REREGISTER);
}

}  // namespace
}  // namespace conformance
