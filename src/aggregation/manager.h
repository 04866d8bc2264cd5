// The aggregation manager: knows the nodes, and makes, keeps and ends the jobs' trees. No sockets and no clock: what
// others say goes in, with what the subnet looks like; what is to be said and asked comes out.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "aggregation/topology.h"
#include "coll/innetwork/mailbox.h"
#include "coll/innetwork/messages.h"

namespace softib::aggregation {

struct ManagerOptions {
  u32 most_jobs = 126;
  std::chrono::nanoseconds patience = std::chrono::seconds(5);  // with a node that says nothing
};

class Manager {
 public:
  using Correspondent = coll::innetwork::Correspondent;
  using Time = coll::innetwork::Mailbox::Time;
  using Words = coll::innetwork::Words;

  // `life` differs from that of managers before.
  Manager(u64 life, const ManagerOptions& options) : life_(life), options_(options) {}

  void heard(Correspondent from, u64 transaction, const Words& words, Time now);
  // What came of a question, by its tag; nothing: nobody answered.
  void answered(u64 tag, const std::optional<Words>& words);
  // What came of ReadTopology; or why it can't be had.
  void topology_read(const tl::expected<Topology, std::string>& topology);
  void on_time(Time now);
  // Who has a node may know that it is no more before it has been silent for long.
  void node_is_gone(u64 guid);

  struct Ask {
    Correspondent to;
    Words words;
    u64 tag = 0;
  };
  struct Answer {
    Correspondent to;
    u64 transaction = 0;
    Words words;
  };
  struct ReadTopology {};
  struct Tell {  // for the log
    std::string text;
  };
  using Output = std::variant<Ask, Answer, ReadTopology, Tell>;
  [[nodiscard]] std::optional<Output> next_output();

  [[nodiscard]] std::size_t jobs() const { return jobs_.size(); }
  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }

 private:
  using NodeHello = coll::innetwork::NodeHello;
  struct KnownNode {
    Correspondent at;
    NodeHello facts;
    u32 jobs = 0;
    Time heard{};
  };
  struct Vertex {
    u64 guid = 0;
    std::optional<coll::innetwork::Prepared> prepared{};
    bool asked = false;  // to prepare, so it is told of the end
    bool over = false;
  };
  struct Begin {
    Correspondent from;
    u64 transaction = 0;
    coll::innetwork::BeginJob words;
  };
  enum class Stage : u8 { preparing, connecting, running };
  struct Job {
    Begin begin;
    u64 key = 0;
    coll::innetwork::Quota quota;
    Tree tree;
    std::string text;
    std::vector<Vertex> vertices;  // as in the tree
    Stage stage = Stage::preparing;
    u32 unanswered = 0;
  };
  struct Asked {
    u32 job = 0;
    u32 vertex = 0;
  };

  void take(Correspondent from, u64 transaction, const NodeHello& words, Time now);
  void take(Correspondent from, u64 transaction, const coll::innetwork::BeginJob& words);
  void take(Correspondent from, u64 transaction, const coll::innetwork::EndJob& words);
  void take(Correspondent from, u64 transaction, const coll::innetwork::JobOver& words);
  void report(Correspondent from, u64 transaction);
  void say(Correspondent to, u64 transaction, Words words) {
    outputs_.push_back(Answer{to, transaction, std::move(words)});
  }
  void refuse(const Begin& begin, const std::string& why);
  void tell(std::string text) { outputs_.push_back(Tell{std::move(text)}); }
  void ask(u32 job, u32 vertex, Words words);

  void plan(const Begin& begin, const Topology& topology);
  [[nodiscard]] std::map<u16, Place> places(const Topology& topology) const;
  [[nodiscard]] const NodeHello& facts(const Job& job, u32 vertex) const;
  [[nodiscard]] coll::innetwork::Quota quota_for(const Job& job) const;
  void prepare(u32 number, Job& job);
  void connect(u32 number, Job& job);
  void run(u32 number, Job& job);
  // Tells all nodes, and the program if it still waits.
  void end(u32 number, const std::string& why);
  void release(const Job& job);
  [[nodiscard]] u32 new_number();

  const u64 life_;
  const ManagerOptions options_;
  std::map<u64, KnownNode> nodes_;  // by GUID
  std::map<u32, Job> jobs_;
  std::deque<Begin> waiting_;  // for the topology
  std::map<u64, Asked> asked_;
  std::deque<Output> outputs_;
  u64 next_tag_ = 1;
  u16 next_number_ = 1;
  u32 built_ = 0;
};

}  // namespace softib::aggregation
