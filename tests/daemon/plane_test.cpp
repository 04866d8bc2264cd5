// What a fabric file says of P_Keys and LIDs reaches the ports by the built-in subnet manager.
#include <gtest/gtest.h>

#include <set>

#include "control_fixture.h"
#include "daemon/plane/manager.h"

namespace softib::daemon {
namespace {

fabric::Fabric fabric_of(const char* text) { return *fabric::parse(text, "test"); }

TEST(Partitions, TheDefaultOneNeedsNoText) { EXPECT_EQ(partitions_of(fabric_of("{hosts: 3}")), ""); }

TEST(Partitions, EachPortGetsWhatTheFileGivesIt) {
  FakeWatcher watcher;
  auto control = *Control::create(fabric_of("{hosts: [{hcas: [{pkeys: [0xffff, 0x8001, 0x0002, 0x8002]}]},"
                                            "{hcas: [{pkeys: [0x7fff, 0x0001]}]}, {}]}"),
                                  watcher);
  control->advance(1);
  auto keys = [&](u32 port) {
    const ipc::Port& record = control->segment().ports[port];
    EXPECT_EQ(record.state, ipc::PortState::active);
    std::set<u16> found;
    for (u32 i = 0; i < record.pkey_count; ++i)
      if (record.pkeys[i]) found.insert(record.pkeys[i]);
    return found;
  };
  EXPECT_EQ(keys(1), (std::set<u16>{0xffff, 0x8001, 0x0002, 0x8002}));
  EXPECT_EQ(keys(2), (std::set<u16>{0x7fff, 0x0001}));
  EXPECT_EQ(keys(3), (std::set<u16>{0xffff}));
}

TEST(PresetLids, ThoseOfTheFileStay) {
  FakeWatcher watcher;
  auto control = *Control::create(
      fabric_of("{hosts: [{hcas: [{ports: [{lid: 0x20}]}]}, {}], switches: [{name: sw, lid: 0x7000}]}"), watcher);
  control->advance(1);
  EXPECT_EQ(control->segment().ports[1].lid, 0x20);
  EXPECT_EQ(control->segment().ports[1].sm_lid, 0x7000);
  EXPECT_EQ(control->segment().ports[2].lid, control->fabric().hosts[1].hcas[0].ports[0].lid);
  EXPECT_EQ(control->segment().ports[2].state, ipc::PortState::active);
}

}  // namespace
}  // namespace softib::daemon
