#include "aggregation/manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace softib::aggregation {

namespace {

using namespace coll::innetwork;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Correspondent program{500, 5};

// Two leaves (LIDs 1, 2) with hosts (100 + leaf * 10 + i), and a spine (3); nodes at 1000 + switch.
Topology subnet() {
  Topology topology;
  for (u16 lid = 1; lid <= 3; ++lid) {
    topology.add_switch(lid, lid == 3 ? "spine0" : "leaf" + std::to_string(lid - 1));
    topology.add_cable(static_cast<u16>(1000 + lid), lid);
  }
  for (u16 leaf = 1; leaf <= 2; ++leaf) {
    topology.add_cable(leaf, 3);
    for (u16 i = 0; i < 4; ++i) topology.add_cable(static_cast<u16>(100 + leaf * 10 + i), leaf);
  }
  return topology;
}

// Nodes that do what they are asked, and remember the jobs that they have.
class ManagerTest : public testing::Test {
 protected:
  ManagerTest() { say_hello(); }

  void say_hello() {
    for (u16 lid = 1; lid <= 3; ++lid) {
      NodeHello hello{lid, static_cast<u16>(1000 + lid), 7, 4, 64, {4096, 16}, "an" + std::to_string(lid), {}};
      hello.jobs.assign(jobs[lid].begin(), jobs[lid].end());
      manager.heard({hello.lid, hello.pair}, next_transaction++, hello, now);
    }
    run();
  }

  static BeginJob request(std::vector<u16> lids, Quota wanted = {}) {
    BeginJob begin{static_cast<u32>(lids.size()), 0, wanted, {}};
    for (const u16 lid : lids) begin.members.push_back({{lid, 5, lid, 1}, "rank at " + std::to_string(lid)});
    return begin;
  }

  u64 begin(const BeginJob& words) {
    manager.heard(program, next_transaction, words, now);
    run();
    return next_transaction++;
  }

  Words node_answer(u16 node, const Words& words) {
    if (refusing == node && std::holds_alternative<PrepareJob>(words)) return Refused{"no queue pair"};
    if (const auto* prepare = std::get_if<PrepareJob>(&words)) {
      jobs[node].insert(prepare->job);
      Prepared prepared{{static_cast<u16>(1000 + node), 5, node * 100U, 3}, {}};
      for (u32 i = 0; i < prepare->children.size(); ++i)
        prepared.children.push_back({static_cast<u16>(1000 + node), 5, node * 100U + 1 + i, 3});
      prepares[node] = *prepare;
      return prepared;
    }
    if (const auto* connect = std::get_if<ConnectJob>(&words)) connects[node] = *connect;
    if (const auto* dismiss = std::get_if<DismissJob>(&words)) {
      jobs[node].erase(dismiss->job);
      dismissals.push_back(dismiss->why);
    }
    return coll::innetwork::Done{};
  }

  void run() {
    while (auto output = manager.next_output()) {
      if (auto* ask = std::get_if<Manager::Ask>(&*output)) {
        const auto node = static_cast<u16>(ask->to.lid - 1000);
        manager.answered(ask->tag, silent == node ? std::nullopt : std::optional(node_answer(node, ask->words)));
      } else if (auto* answer = std::get_if<Manager::Answer>(&*output)) {
        answers.insert_or_assign(answer->transaction, answer->words);
      } else if (std::holds_alternative<Manager::ReadTopology>(*output)) {
        manager.topology_read(unknown ? tl::expected<Topology, std::string>(tl::unexpected<std::string>("no answer"))
                                      : subnet());
      }
    }
  }

  std::string refusal(u64 transaction) {
    const auto* refused = std::get_if<Refused>(&answers.at(transaction));
    return refused == nullptr ? "not refused" : refused->why;
  }

  std::size_t jobs_at_nodes() { return jobs[1].size() + jobs[2].size() + jobs[3].size(); }

  Manager::Time now{};
  Manager manager{0xabcd, {.most_jobs = 3, .patience = seconds(5)}};
  u64 next_transaction = 1;
  std::map<u64, Words> answers;
  std::map<u16, std::set<u32>> jobs;
  std::map<u16, PrepareJob> prepares;
  std::map<u16, ConnectJob> connects;
  std::vector<std::string> dismissals;
  u16 refusing = 0;
  u16 silent = 0;
  bool unknown = false;
};

TEST_F(ManagerTest, MakesATreeAndTellsEachMemberItsNode) {
  const u64 asked = begin(request({110, 120, 111}, {1000, 4}));
  const auto& begun = std::get<JobBegun>(answers.at(asked));
  EXPECT_EQ(begun.quota, (Quota{960, 4}));
  ASSERT_EQ(begun.nodes.size(), 3U);
  EXPECT_EQ(begun.nodes[0], (Member{{1001, 5, 101, 3}, "an1"}));
  EXPECT_EQ(begun.nodes[1], (Member{{1002, 5, 201, 3}, "an2"}));
  EXPECT_EQ(begun.nodes[2], (Member{{1001, 5, 102, 3}, "an1"}));
  EXPECT_EQ(begun.tree, "spine0 <- leaf0, leaf1; leaf1 <- 1 host; leaf0 <- 2 hosts");
  EXPECT_THAT(prepares[1].children, ElementsAre("rank at 110", "rank at 111"));
  EXPECT_THAT(prepares[3].children, ElementsAre("an1", "an2"));
  EXPECT_TRUE(prepares[1].has_parent);
  EXPECT_FALSE(prepares[3].has_parent);
  EXPECT_EQ(prepares[3].ranks, 3U);
  // Ends meet.
  EXPECT_EQ(connects[1].parent.pair, 301U);
  EXPECT_EQ(connects[2].parent.pair, 302U);
  EXPECT_EQ(connects[3].children[0].pair, 100U);
  EXPECT_EQ(connects[3].children[1].pair, 200U);
  EXPECT_EQ(connects[1].children[1].pair, 111U);
  EXPECT_EQ(manager.jobs(), 1U);
}

TEST_F(ManagerTest, AJobIsOverWhenAllNodesSaySo) {
  const u32 job = std::get<JobBegun>(answers.at(begin(request({110, 120})))).job;
  for (u64 node = 1; node <= 3; ++node) {
    EXPECT_EQ(manager.jobs(), 1U);
    manager.heard({static_cast<u16>(1000 + node), 7}, next_transaction++, JobOver{node, job, true, ""}, now);
    jobs[static_cast<u16>(node)].erase(job);
  }
  run();
  EXPECT_EQ(manager.jobs(), 0U);
  EXPECT_TRUE(dismissals.empty());
}

TEST_F(ManagerTest, AFailureAtOneNodeEndsTheJobAtAll) {
  const u32 job = std::get<JobBegun>(answers.at(begin(request({110, 120})))).job;
  jobs[1].erase(job);
  manager.heard({1001, 7}, next_transaction++, JobOver{1, job, false, "rank 0 died"}, now);
  run();
  EXPECT_EQ(manager.jobs(), 0U);
  EXPECT_EQ(jobs_at_nodes(), 0U);
  EXPECT_THAT(dismissals, ElementsAre("rank 0 died", "rank 0 died"));
}

TEST_F(ManagerTest, OnlyNodesSayHowAJobEnded) {
  const u32 job = std::get<JobBegun>(answers.at(begin(request({110, 120})))).job;
  manager.heard(program, next_transaction, JobOver{1, job, false, "nonsense"}, now);
  run();
  EXPECT_THAT(refusal(next_transaction), HasSubstr("only a node"));
  EXPECT_EQ(manager.jobs(), 1U);
}

TEST_F(ManagerTest, ItsOwnerCanEndAJob) {
  const auto begun = std::get<JobBegun>(answers.at(begin(request({110, 120}))));
  manager.heard(program, next_transaction, EndJob{begun.job, begun.key + 1}, now);
  run();
  EXPECT_THAT(refusal(next_transaction++), HasSubstr("another's"));
  EXPECT_EQ(manager.jobs(), 1U);
  manager.heard(program, next_transaction++, EndJob{begun.job, begun.key}, now);
  run();
  EXPECT_EQ(manager.jobs(), 0U);
  EXPECT_EQ(jobs_at_nodes(), 0U);
}

TEST_F(ManagerTest, WhatCantBeHadIsRefusedAndNothingStays) {
  refusing = 3;
  EXPECT_EQ(refusal(begin(request({110, 120}))), "an3: no queue pair");
  refusing = 0;
  silent = 2;
  EXPECT_EQ(refusal(begin(request({110, 120}))), "an2 doesn't answer");
  silent = 0;
  unknown = true;
  EXPECT_EQ(refusal(begin(request({110, 120}))), "the subnet isn't known: no answer");
  unknown = false;
  EXPECT_THAT(refusal(begin(request({110, 7}))), HasSubstr("the port with LID 7 hangs on no switch"));
  EXPECT_EQ(refusal(begin(request({}))), "a job needs members");
  EXPECT_EQ(manager.jobs(), 0U);
  // The one that was silent has heard nothing of its end; its next hello brings it.
  EXPECT_EQ(jobs_at_nodes(), 0U);
}

TEST_F(ManagerTest, LimitsOfJobs) {
  for (u32 i = 0; i < 3; ++i) EXPECT_TRUE(std::holds_alternative<JobBegun>(answers.at(begin(request({110, 120})))));
  EXPECT_EQ(refusal(begin(request({110, 120}))), "there are 3 jobs already, as many as may be");
}

TEST_F(ManagerTest, WithoutNodesThereIsNoJob) {
  now += seconds(6);
  manager.on_time(now);
  run();
  EXPECT_EQ(manager.nodes(), 0U);
  EXPECT_EQ(refusal(begin(request({110}))), "no aggregation node has come to the manager");
}

TEST_F(ManagerTest, ANodeThatIsGoneEndsItsJobs) {
  static_cast<void>(begin(request({110, 120})));
  static_cast<void>(begin(request({120, 121})));
  now += seconds(4);
  for (const u16 lid : {2, 3})
    manager.heard({static_cast<u16>(1000 + lid), 7}, next_transaction++,
                  NodeHello{lid, static_cast<u16>(1000 + lid), 7, 4, 64, {4096, 16}, "an", {}}, now);
  now += seconds(2);
  silent = 1;
  manager.on_time(now);
  run();
  EXPECT_EQ(manager.nodes(), 2U);
  EXPECT_EQ(manager.jobs(), 1U);
  EXPECT_THAT(dismissals, ElementsAre("an1 is gone", "an1 is gone"));
}

TEST_F(ManagerTest, WhoKnowsThatANodeIsGoneNeedNotWait) {
  static_cast<void>(begin(request({110, 120})));
  static_cast<void>(begin(request({120, 121})));
  silent = 1;
  manager.node_is_gone(1);
  manager.node_is_gone(99);  // nobody's
  run();
  EXPECT_EQ(manager.nodes(), 2U);
  EXPECT_EQ(manager.jobs(), 1U);
  EXPECT_THAT(dismissals, ElementsAre("an1 is gone", "an1 is gone"));
}

TEST_F(ManagerTest, ANodeHearsOfJobsThatAreNoMore) {
  const u32 stale = (0xabcdU << 16) + 99;
  const u32 of_another_life = 0x1234'0001;
  manager.heard({1001, 7}, next_transaction, NodeHello{1, 1001, 7, 4, 64, {4096, 16}, "an1", {stale, of_another_life}},
                now);
  run();
  EXPECT_THAT(std::get<Welcome>(answers.at(next_transaction)).forgotten, ElementsAre(stale));
}

TEST_F(ManagerTest, Reports) {
  static_cast<void>(begin(request({110, 120})));
  manager.heard(program, next_transaction, AskReport{}, now);
  run();
  const auto& report = std::get<Report>(answers.at(next_transaction));
  EXPECT_EQ(report.jobs, 1U);
  EXPECT_THAT(report.nodes, ElementsAre("an1 (LID 1001, 1 jobs)", "an2 (LID 1002, 1 jobs)", "an3 (LID 1003, 1 jobs)"));
}

}  // namespace

}  // namespace softib::aggregation
