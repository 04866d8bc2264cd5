// sharp_hello: does in-network reduction work from this host? Asks the aggregation manager for a tree with this host
// alone, goes through it with a barrier and some sums, and tells.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <vector>

#include "coll/innetwork/setup.h"
#include "coll/innetwork/verbs_tree.h"
#include "coll/log.h"
#include "options/command_line.h"

namespace softib::aggregation {

namespace {

using namespace coll::innetwork;
using coll::Aggregation;
using coll::Outcome;

constexpr auto patience = std::chrono::seconds(10);

struct HelloOptions {
  std::string device;  // empty: as SOFTIB_IB_HCA says
  u32 iterations = 10;
};

class Hello {
 public:
  explicit Hello(const HelloOptions& options) : options_(options) {}
  [[nodiscard]] Outcome<void> run();

 private:
  [[nodiscard]] Outcome<void> join();
  [[nodiscard]] Outcome<void> tell_nodes();
  [[nodiscard]] Outcome<void> pass(Aggregation& aggregation);
  [[nodiscard]] Outcome<void> barrier();
  [[nodiscard]] Outcome<void> all_reduce(u32 count);

  const HelloOptions& options_;
  std::unique_ptr<VerbsTree> tree_;
  std::unique_ptr<ManagerDesk> desk_;
  coll::Stream next_ = 0;
};

Outcome<void> Hello::run() {
  if (auto joined = join(); !joined) return joined;
  for (u32 i = 0; i < options_.iterations; ++i) {
    if (auto done = barrier(); !done) return done;
    for (const u32 count : {1U, 1000U, 1U << 18})
      if (auto done = all_reduce(count); !done) return done;
  }
  fmt::print("{} barriers, {} all-reduces of 4 bytes, 4000 bytes and 1 MiB: right\n", options_.iterations,
             3 * options_.iterations);
  return {};
}

Outcome<void> Hello::tell_nodes() {
  auto answer = desk_->ask(AskReport{});
  if (!answer) return tl::unexpected(answer.error());
  const auto* report = std::get_if<Report>(&*answer);
  if (report == nullptr) return coll::refuse(coll::Code::system_error, "the manager answers what wasn't asked");
  fmt::print("aggregation manager at LID {}: {} nodes, {} jobs\n", desk_->address().lid, report->nodes.size(),
             report->jobs);
  for (const std::string& node : report->nodes) fmt::print("  {}\n", node);
  return {};
}

Outcome<void> Hello::join() {
  coll::Environment environment = coll::Environment::read();
  if (!options_.device.empty()) {
    const auto filter = coll::NameFilter::parse("=" + options_.device);
    if (!filter) return coll::refuse(coll::Code::invalid_argument, options_.device + " is no device");
    environment.ib_hca = *filter;
  }
  auto tree = VerbsTree::make(environment, coll::log::no_rank);
  if (!tree) return tl::unexpected(tree.error());
  tree_ = std::move(*tree);
  fmt::print("{}:{} at LID {}\n", tree_->port().device, tree_->port().number, tree_->port().lid);
  auto desk = ManagerDesk::find(tree_->port(), tree_->settings());
  if (!desk) return tl::unexpected(desk.error());
  desk_ = std::move(*desk);
  if (auto told = tell_nodes(); !told) return told;
  BeginJob job{1, environment.ib_sl, {0, most_outstanding}, {}};
  job.members.push_back({tree_->end(), fmt::format("sharp_hello on {}", coll::log::host_name())});
  auto answer = desk_->ask(job);
  if (!answer) return tl::unexpected(answer.error());
  const auto* begun = std::get_if<JobBegun>(&*answer);
  if (begun == nullptr || begun->nodes.size() != 1)
    return coll::refuse(coll::Code::system_error, "the manager answers what wasn't asked");
  fmt::print("job {:#x}: tree {}\n  to {} at LID {}; segments of {} bytes, {} outstanding\n", begun->job, begun->tree,
             begun->nodes[0].name, begun->nodes[0].end.lid, begun->quota.segment_bytes, begun->quota.outstanding);
  return tree_->connect({begun->job, begun->quota, begun->nodes[0].end, begun->nodes[0].name, {0}});
}

Outcome<void> Hello::pass(Aggregation& aggregation) {
  aggregation.stream = next_++;
  tree_->expect(aggregation.stream);
  tree_->begin(aggregation);
  const auto begin = std::chrono::steady_clock::now();
  while (aggregation.state == coll::State::waiting) {
    const auto now = std::chrono::steady_clock::now();
    if (!tree_->progress()) tree_->look(now);
    if (now - begin > patience) {
      tree_->give_up();
      return coll::refuse(coll::Code::remote_error, "nothing comes back from the tree");
    }
  }
  if (aggregation.state == coll::State::failed) return tl::unexpected(tree_->failure());
  return {};
}

Outcome<void> Hello::barrier() {
  Aggregation aggregation;
  return pass(aggregation);
}

Outcome<void> Hello::all_reduce(u32 count) {
  std::vector<i32> given(count);
  std::vector<i32> got(count);
  for (u32 i = 0; i < count; ++i) given[i] = static_cast<i32>(i * 2654435761U);
  Aggregation aggregation;
  aggregation.from = reinterpret_cast<const std::byte*>(given.data());
  aggregation.to = reinterpret_cast<std::byte*>(got.data());
  aggregation.bytes = u64{count} * sizeof(i32);
  aggregation.type = coll::DataType::int32;
  if (auto passed = pass(aggregation); !passed) return passed;
  if (got == given) return {};
  return coll::refuse(coll::Code::internal_error, fmt::format("a sum of {} numbers came back wrong", count));
}

int say_hello(int argc, char** argv) {
  HelloOptions options;
  CommandLine line(
      "Does in-network reduction work from this host? Asks the aggregation manager for a tree with this host alone,\n"
      "and sends sums through it. Exits with 0 if all came back right.",
      "sharp_hello");
  line.text("-d,--ib-dev", options.device, "HCA, and its port; else as SOFTIB_IB_HCA says", "DEVICE[:PORT]");
  line.number("-i,--iterations", options.iterations, 1, 1000000, "How often");
  if (const auto ending = line.parse(argc, argv)) {
    std::fputs(ending->text.c_str(), ending->status ? stderr : stdout);
    return ending->status;
  }
  const auto done = Hello(options).run();
  if (done)
    fmt::print("Test Passed.\n");
  else
    fmt::print(stderr, "sharp_hello: {}\n", done.error().text);
  return done ? 0 : 1;
}

}  // namespace

}  // namespace softib::aggregation

int main(int argc, char** argv) { return softib::aggregation::say_hello(argc, argv); }
