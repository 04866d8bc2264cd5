// What each operation moves, and what completes.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "engine/world.h"

namespace softib::test {
namespace {

// How the target's memory is reached; of the latter two the source is on-demand memory too, which nothing may touch but
// the kernel.
enum class Way { memory_file, system_call, agent, from_on_demand, from_on_demand_by_agent };

bool is_on_demand(Way way) { return way == Way::from_on_demand || way == Way::from_on_demand_by_agent; }

class Transfer : public ::testing::TestWithParam<Way> {
 public:
  void SetUp() override {
    scq = world.cq();
    rcq = world.cq();
    a = world.qp(1, QpType::rc, scq, rcq);
    peer_scq = world.cq();
    peer_rcq = world.cq();
    b = world.qp(2, QpType::rc, peer_scq, peer_rcq);
    world.connect(a, b);
    mine = world.memory(1, 1 << 20, !is_on_demand(GetParam()));
    theirs = world.memory(2, 1 << 20, GetParam() == Way::memory_file);
    const u32 demand = is_on_demand(GetParam()) ? u32{hca::access_on_demand} : 0;
    lkey = world.key(*mine, all_access | demand);
    rkey = world.key(*theirs, all_access | demand);
    if (GetParam() == Way::agent || GetParam() == Way::from_on_demand_by_agent)
      world.segment().processes[2].pid_namespace = 1;  // its pid means nothing here
    if (GetParam() != Way::memory_file) world.engine(2).serve_peers();
    for (u64 i = 0; i < mine->size(); ++i) mine->data()[i] = static_cast<u8>(i * 7 + 1);
  }

  // Posts, rings, and gives the one completion.
  ib_uverbs_wc run(const Send& send) {
    post(world, a, send);
    EXPECT_EQ(world.ring(a), 0);
    auto done = world.wait_for(scq, 1);
    EXPECT_EQ(done.size(), 1U);
    return done.empty() ? ib_uverbs_wc{} : done[0];
  }
  Send write(u32 length, u64 from = 0, u64 to = 0) {
    Send send;
    send.opcode = WrOpcode::rdma_write;
    send.wr_id = 77;
    send.sges = {{mine->address() + from, length, lkey}};
    send.remote_address = theirs->address() + to;
    send.rkey = rkey;
    return send;
  }
  static u32 status(WcStatus s) { return static_cast<u32>(s); }

  World world;
  u32 scq, rcq, peer_scq, peer_rcq, a, b, lkey, rkey;
  std::unique_ptr<Memory> mine, theirs;
};

TEST_P(Transfer, WriteMovesExactlyTheBytes) {
  for (u32 length : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65, 255, 4095, 4096, 4097, 65535, 1 << 19}) {
    for (u32 shift : {0, 1, 5}) {
      std::memset(theirs->data(), 0xee, theirs->size());
      auto wc = run(write(length, shift, 3 + shift));
      ASSERT_EQ(wc.status, status(WcStatus::success));
      ASSERT_EQ(wc.wr_id, 77U);
      ASSERT_EQ(wc.opcode, static_cast<u32>(WcOpcode::rdma_write));
      ASSERT_EQ(std::memcmp(theirs->data() + 3 + shift, mine->data() + shift, length), 0) << length;
      ASSERT_EQ(theirs->data()[2 + shift], 0xee);
      ASSERT_EQ(theirs->data()[3 + shift + length], 0xee);
    }
  }
}

TEST_P(Transfer, ReadScattersIntoTheLocalList) {
  for (u64 i = 0; i < theirs->size(); ++i) theirs->data()[i] = static_cast<u8>(i * 3);
  Send send;
  send.opcode = WrOpcode::rdma_read;
  send.sges = {{mine->address(), 100, lkey}, {mine->address() + 5000, 0, lkey}, {mine->address() + 1000, 4000, lkey}};
  send.remote_address = theirs->address() + 11;
  send.rkey = rkey;
  auto wc = run(send);
  EXPECT_EQ(wc.status, status(WcStatus::success));
  EXPECT_EQ(wc.byte_len, 4100U);
  EXPECT_EQ(std::memcmp(mine->data(), theirs->data() + 11, 100), 0);
  EXPECT_EQ(std::memcmp(mine->data() + 1000, theirs->data() + 111, 4000), 0);
}

TEST_P(Transfer, AtomicsGiveTheOldValue) {
  auto* word = reinterpret_cast<u64*>(theirs->data() + 64);
  auto* old = reinterpret_cast<u64*>(mine->data());
  Send send;
  send.sges = {{mine->address(), 8, lkey}};
  send.remote_address = theirs->address() + 64;
  send.rkey = rkey;
  *word = 40;
  send.opcode = WrOpcode::fetch_add;
  send.compare_add = 2;
  EXPECT_EQ(run(send).status, status(WcStatus::success));
  EXPECT_EQ(*old, 40U);
  EXPECT_EQ(*word, 42U);
  send.opcode = WrOpcode::compare_swap;
  send.compare_add = 41;
  send.swap = 7;
  EXPECT_EQ(run(send).status, status(WcStatus::success));
  EXPECT_EQ(*old, 42U);
  EXPECT_EQ(*word, 42U);
  send.compare_add = 42;
  EXPECT_EQ(run(send).status, status(WcStatus::success));
  EXPECT_EQ(*word, 7U);
}

TEST_P(Transfer, MisalignedAtomicIsAnInvalidRequest) {
  Send send;
  send.opcode = WrOpcode::fetch_add;
  send.sges = {{mine->address(), 8, lkey}};
  send.remote_address = theirs->address() + 4;
  send.rkey = rkey;
  EXPECT_EQ(run(send).status, status(WcStatus::rem_inv_req_err));
  EXPECT_EQ(world.record(a).state.load(), QpState::err);
  EXPECT_EQ(world.record(b).state.load(), QpState::err);
  EXPECT_TRUE(world.daemon(1).saw(ipc::ObjectKind::qp, b, hca::AsyncEvent::qp_req_err));
}

TEST_P(Transfer, SendFillsTheReceiveList) {
  post_receive(world, b, 5, {{theirs->address(), 10, rkey}, {theirs->address() + 100, 1000, rkey}});
  Send send;
  send.opcode = WrOpcode::send_with_imm;
  send.immediate = 0xabcd;
  send.sges = {{mine->address(), 300, lkey}, {mine->address() + 300, 200, lkey}};
  EXPECT_EQ(run(send).status, status(WcStatus::success));
  auto got = world.poll(peer_rcq);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].wr_id, 5U);
  EXPECT_EQ(got[0].opcode, static_cast<u32>(WcOpcode::recv));
  EXPECT_EQ(got[0].byte_len, 500U);
  EXPECT_EQ(got[0].wc_flags, static_cast<u32>(hca::wc_with_imm));
  EXPECT_EQ(got[0].ex.invalidate_rkey, 0xabcdU);
  EXPECT_EQ(got[0].src_qp, a);
  EXPECT_EQ(got[0].slid, 1U);
  EXPECT_EQ(std::memcmp(theirs->data(), mine->data(), 10), 0);
  EXPECT_EQ(std::memcmp(theirs->data() + 100, mine->data() + 10, 490), 0);
}

TEST_P(Transfer, WriteWithImmediateConsumesAReceive) {
  post_receive(world, b, 6, {});
  Send send = write(128);
  send.opcode = WrOpcode::rdma_write_with_imm;
  send.immediate = 9;
  EXPECT_EQ(run(send).status, status(WcStatus::success));
  auto got = world.poll(peer_rcq);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].opcode, static_cast<u32>(WcOpcode::recv_rdma_with_imm));
  EXPECT_EQ(got[0].byte_len, 128U);
  EXPECT_EQ(std::memcmp(theirs->data(), mine->data(), 128), 0);
}

TEST_P(Transfer, InlineDataNeedsNoKey) {
  Send send = write(0);
  send.sges.clear();
  send.inline_data = std::string(200, 'x');
  EXPECT_EQ(run(send).status, status(WcStatus::success));
  EXPECT_EQ(std::string(reinterpret_cast<char*>(theirs->data()), 200), send.inline_data);
  // ibv_wr_set_inline_data sets no flag.
  post(world, a, send);
}

TEST_P(Transfer, KeysAreChecked) {
  struct Case {
    const char* what;
    void (*change)(Send&, Transfer&);
    WcStatus expected;
  };
  const Case cases[] = {
      {"unknown lkey", [](Send& s, Transfer&) { s.sges[0].lkey = 0x7fff'ff11; }, WcStatus::loc_prot_err},
      {"stale lkey", [](Send& s, Transfer&) { s.sges[0].lkey ^= 1; }, WcStatus::loc_prot_err},
      {"local out of bounds", [](Send& s, Transfer& t) { s.sges[0].address = t.mine->address() + t.mine->size() - 7; },
       WcStatus::loc_prot_err},
      {"unknown rkey", [](Send& s, Transfer&) { s.rkey = 0x7fff'ff11; }, WcStatus::rem_access_err},
      {"zero rkey", [](Send& s, Transfer&) { s.rkey = 0; }, WcStatus::rem_access_err},
      {"before the region", [](Send& s, Transfer& t) { s.remote_address = t.theirs->address() - 1; },
       WcStatus::rem_access_err},
      {"past the region", [](Send& s, Transfer& t) { s.remote_address = t.theirs->address() + t.theirs->size() - 7; },
       WcStatus::rem_access_err},
      {"wraps around", [](Send& s, Transfer&) { s.remote_address = ~0ULL - 3; }, WcStatus::rem_access_err},
      {"read-only region",
       [](Send& s, Transfer& t) { s.rkey = t.world.key(*t.theirs, hca::access_local_write | hca::access_remote_read); },
       WcStatus::rem_access_err},
      {"other PD",
       [](Send& s, Transfer& t) {
         s.rkey = t.world.key(*t.theirs, all_access);
         t.world.segment().keys[s.rkey >> 8].pd = pd + 1;
       },
       WcStatus::rem_access_err},
  };
  for (const Case& c : cases) {
    world.connect(a, b);
    world.record(a).requester.next_psn = world.record(b).responder.expected_psn = 0;
    Send send = write(8);
    c.change(send, *this);
    EXPECT_EQ(run(send).status, status(c.expected)) << c.what;
    EXPECT_EQ(world.record(a).state.load(), QpState::err) << c.what;
    bool remote = c.expected == WcStatus::rem_access_err;
    EXPECT_EQ(world.record(b).state.load(), remote ? QpState::err : QpState::rts) << c.what;
  }
  EXPECT_TRUE(world.daemon(1).saw(ipc::ObjectKind::qp, b, hca::AsyncEvent::qp_access_err));
}

// Nothing but an error comes of on-demand memory that is not there any more, on either side.
TEST_P(Transfer, OnDemandMemoryThatIsGoneIsAnError) {
  if (!is_on_demand(GetParam())) return;
  for (Memory* gone : {mine.get(), theirs.get()}) {
    ASSERT_EQ(run(write(1 << 16)).status, status(WcStatus::success));
    ASSERT_EQ(::mprotect(gone->data(), gone->size(), PROT_NONE), 0);
    EXPECT_NE(run(write(1 << 16)).status, status(WcStatus::success));
    ASSERT_EQ(::mprotect(gone->data(), gone->size(), PROT_READ | PROT_WRITE), 0);
    world.connect(a, b);
  }
}

std::string name_of(const ::testing::TestParamInfo<Way>& test) {
  switch (test.param) {
    case Way::memory_file:
      return "MemoryFile";
    case Way::system_call:
      return "SystemCall";
    case Way::agent:
      return "Agent";
    case Way::from_on_demand:
      return "FromOnDemand";
    case Way::from_on_demand_by_agent:
      return "FromOnDemandByAgent";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Memory, Transfer,
                         ::testing::Values(Way::memory_file, Way::system_call, Way::agent, Way::from_on_demand,
                                           Way::from_on_demand_by_agent),
                         name_of);

}  // namespace
}  // namespace softib::test
