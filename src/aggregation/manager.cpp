#include "aggregation/manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace softib::aggregation {

using namespace coll::innetwork;

namespace {

// Segments are cut at cache lines, and a failure's text fits into one.
u32 fitting_segment(u32 bytes) { return std::max<u32>(most_failure_text + 63, bytes) / 64 * 64; }

u32 lesser(u32 wanted, u32 most) { return wanted == 0 ? most : std::min(wanted, most); }

}  // namespace

std::optional<Manager::Output> Manager::next_output() {
  if (outputs_.empty()) return std::nullopt;
  Output output = std::move(outputs_.front());
  outputs_.pop_front();
  return output;
}

void Manager::heard(Correspondent from, u64 transaction, const Words& words, Time now) {
  if (const auto* hello = std::get_if<NodeHello>(&words)) return take(from, transaction, *hello, now);
  if (const auto* begin = std::get_if<BeginJob>(&words)) return take(from, transaction, *begin);
  if (const auto* end = std::get_if<EndJob>(&words)) return take(from, transaction, *end);
  if (const auto* over = std::get_if<JobOver>(&words)) return take(from, transaction, *over);
  if (std::holds_alternative<AskReport>(words)) return report(from, transaction);
  say(from, transaction, Refused{"that isn't for an aggregation manager to hear"});
}

void Manager::take(Correspondent from, u64 transaction, const NodeHello& words, Time now) {
  const auto [entry, is_new] = nodes_.try_emplace(words.guid);
  KnownNode& node = entry->second;
  if (is_new) tell(fmt::format("{} at LID {} is there", words.name, words.lid));
  node.at = {words.lid, words.pair};
  node.facts = words;
  node.heard = now;
  Welcome welcome{life_, {}};
  for (const u32 job : words.jobs)
    if (job >> 16 == (life_ & 0xffff) && !jobs_.contains(job)) welcome.forgotten.push_back(job);
  say(from, transaction, std::move(welcome));
}

void Manager::take(Correspondent from, u64 transaction, const BeginJob& words) {
  const Begin begin{from, transaction, words};
  if (words.members.empty() || words.ranks < words.members.size()) return refuse(begin, "a job needs members");
  if (nodes_.empty()) return refuse(begin, "no aggregation node has come to the manager");
  if (jobs_.size() >= options_.most_jobs)
    return refuse(begin, fmt::format("there are {} jobs already, as many as may be", jobs_.size()));
  waiting_.push_back(begin);
  if (waiting_.size() == 1) outputs_.push_back(ReadTopology{});
}

void Manager::refuse(const Begin& begin, const std::string& why) {
  tell(fmt::format("no tree for {} members: {}", begin.words.members.size(), why));
  say(begin.from, begin.transaction, Refused{why});
}

void Manager::topology_read(const tl::expected<Topology, std::string>& topology) {
  for (const Begin& begin : std::exchange(waiting_, {})) {
    if (topology)
      plan(begin, *topology);
    else
      refuse(begin, fmt::format("the subnet isn't known: {}", topology.error()));
  }
}

std::map<u16, Place> Manager::places(const Topology& topology) const {
  std::map<u16, Place> all;
  for (const auto& [guid, node] : nodes_) {
    const auto above = topology.above.find(node.facts.lid);
    if (above != topology.above.end())
      all[above->second] = {node.facts.lid, node.jobs, {node.facts.most_children, node.facts.most_jobs}};
  }
  return all;
}

u32 Manager::new_number() {
  for (;;) {
    const u32 number = static_cast<u32>(life_ & 0xffff) << 16 | next_number_++;
    if (!jobs_.contains(number)) return number;
  }
}

void Manager::plan(const Begin& begin, const Topology& topology) {
  std::vector<u16> members;
  for (const Member& member : begin.words.members) members.push_back(member.end.lid);
  TreeAnswer answer = plan_tree(topology, places(topology), members);
  if (!answer.tree) return refuse(begin, answer.why_not);
  const u32 number = new_number();
  Job& job = jobs_[number];
  job.begin = begin;
  job.tree = std::move(*answer.tree);
  job.key = (life_ ^ number) * 0x9e37'79b9'7f4a'7c15 + next_tag_;
  job.text = text_of(job.tree, topology);
  for (const Tree::Vertex& vertex : job.tree.vertices) {
    const auto node = std::find_if(nodes_.begin(), nodes_.end(),
                                   [&](const auto& entry) { return entry.second.facts.lid == vertex.node; });
    ++node->second.jobs;
    job.vertices.push_back({.guid = node->first});
  }
  job.quota = quota_for(job);
  prepare(number, job);
}

const NodeHello& Manager::facts(const Job& job, u32 vertex) const { return nodes_.at(job.vertices[vertex].guid).facts; }

Quota Manager::quota_for(const Job& job) const {
  Quota quota = job.begin.words.wanted;
  for (u32 vertex = 0; vertex < job.vertices.size(); ++vertex) {
    const Quota& most = facts(job, vertex).most;
    quota.segment_bytes = lesser(quota.segment_bytes, most.segment_bytes);
    quota.outstanding = lesser(quota.outstanding, most.outstanding);
  }
  quota.segment_bytes = std::min(fitting_segment(quota.segment_bytes), most_segment);
  quota.outstanding = std::max(1U, quota.outstanding);
  return quota;
}

void Manager::ask(u32 job, u32 vertex, Words words) {
  const auto node = nodes_.find(jobs_.at(job).vertices[vertex].guid);
  if (node == nodes_.end()) return;
  const u64 tag = next_tag_++;
  asked_[tag] = {job, vertex};
  outputs_.push_back(Ask{node->second.at, std::move(words), tag});
}

void Manager::prepare(u32 number, Job& job) {
  for (u32 index = 0; index < job.vertices.size(); ++index) {
    const Tree::Vertex& vertex = job.tree.vertices[index];
    PrepareJob words{number, job.begin.words.ranks, job.begin.words.sl, job.quota, vertex.parent.has_value(), 0, {}};
    words.members = static_cast<u32>(vertex.members.size());
    for (const u32 member : vertex.members) words.children.push_back(job.begin.words.members[member].name);
    for (const u32 child : vertex.children) words.children.push_back(facts(job, child).name);
    job.vertices[index].asked = true;
    ++job.unanswered;
    ask(number, index, std::move(words));
  }
}

void Manager::connect(u32 number, Job& job) {
  job.stage = Stage::connecting;
  for (u32 index = 0; index < job.vertices.size(); ++index) {
    const Tree::Vertex& vertex = job.tree.vertices[index];
    ConnectJob words{number, {}, {}};
    for (const u32 member : vertex.members) words.children.push_back(job.begin.words.members[member].end);
    for (const u32 child : vertex.children) words.children.push_back(job.vertices[child].prepared->parent);
    if (vertex.parent) {
      const Tree::Vertex& parent = job.tree.vertices[*vertex.parent];
      const auto place = std::find(parent.children.begin(), parent.children.end(), index) - parent.children.begin();
      words.parent =
          job.vertices[*vertex.parent].prepared->children[parent.members.size() + static_cast<std::size_t>(place)];
    }
    ++job.unanswered;
    ask(number, index, std::move(words));
  }
}

void Manager::run(u32 number, Job& job) {
  job.stage = Stage::running;
  ++built_;
  JobBegun begun{number, job.key, job.quota, std::vector<Member>(job.begin.words.members.size()), job.text};
  for (u32 index = 0; index < job.vertices.size(); ++index) {
    const Tree::Vertex& vertex = job.tree.vertices[index];
    for (std::size_t place = 0; place < vertex.members.size(); ++place)
      begun.nodes[vertex.members[place]] = {job.vertices[index].prepared->children[place], facts(job, index).name};
  }
  tell(fmt::format("job {:#x}: {} members, {}", number, begun.nodes.size(), job.text));
  say(job.begin.from, job.begin.transaction, std::move(begun));
}

void Manager::answered(u64 tag, const std::optional<Words>& words) {
  const auto asked = asked_.extract(tag);
  if (asked.empty()) return;
  const auto [number, vertex] = asked.mapped();
  const auto entry = jobs_.find(number);
  if (entry == jobs_.end() || entry->second.stage == Stage::running) return;
  Job& job = entry->second;
  const std::string name = facts(job, vertex).name;
  if (!words) return end(number, fmt::format("{} doesn't answer", name));
  if (const auto* refused = std::get_if<Refused>(&*words))
    return end(number, fmt::format("{}: {}", name, refused->why));
  if (job.stage == Stage::preparing) {
    const auto* prepared = std::get_if<Prepared>(&*words);
    const Tree::Vertex& place = job.tree.vertices[vertex];
    if (prepared == nullptr || prepared->children.size() != place.members.size() + place.children.size())
      return end(number, fmt::format("{} answers what wasn't asked", name));
    job.vertices[vertex].prepared = *prepared;
  }
  if (--job.unanswered != 0) return;
  job.stage == Stage::preparing ? connect(number, job) : run(number, job);
}

void Manager::release(const Job& job) {
  for (const Vertex& vertex : job.vertices)
    if (const auto node = nodes_.find(vertex.guid); node != nodes_.end() && node->second.jobs > 0) --node->second.jobs;
}

void Manager::end(u32 number, const std::string& why) {
  const auto entry = jobs_.find(number);
  if (entry == jobs_.end()) return;
  for (u32 index = 0; index < entry->second.vertices.size(); ++index)
    if (entry->second.vertices[index].asked && !entry->second.vertices[index].over)
      ask(number, index, DismissJob{number, why});
  const Job job = std::move(entry->second);
  jobs_.erase(entry);
  release(job);
  if (job.stage != Stage::running) return refuse(job.begin, why);
  tell(fmt::format("job {:#x} ends: {}", number, why));
}

void Manager::take(Correspondent from, u64 transaction, const EndJob& words) {
  const auto entry = jobs_.find(words.job);
  if (entry != jobs_.end() && entry->second.key != words.key)
    return say(from, transaction, Refused{"that is another's job"});
  if (entry != jobs_.end()) end(words.job, "its program ended it");
  say(from, transaction, coll::innetwork::Done{});
}

void Manager::take(Correspondent from, u64 transaction, const JobOver& words) {
  const auto node = nodes_.find(words.guid);
  if (node == nodes_.end() || node->second.at != from)
    return say(from, transaction, Refused{"only a node says how a job ended"});
  say(from, transaction, coll::innetwork::Done{});
  const auto entry = jobs_.find(words.job);
  if (entry == jobs_.end()) return;
  Job& job = entry->second;
  for (Vertex& vertex : job.vertices)
    if (vertex.guid == words.guid) vertex.over = true;
  if (!words.in_order) return end(words.job, words.why);
  if (!std::all_of(job.vertices.begin(), job.vertices.end(), [](const Vertex& vertex) { return vertex.over; })) return;
  release(job);
  jobs_.erase(entry);
  tell(fmt::format("job {:#x} is over", words.job));
}

void Manager::report(Correspondent from, u64 transaction) {
  Report report;
  for (const auto& [guid, node] : nodes_)
    report.nodes.push_back(fmt::format("{} (LID {}, {} jobs)", node.facts.name, node.facts.lid, node.jobs));
  report.jobs = static_cast<u32>(jobs_.size());
  report.trees_built = built_;
  say(from, transaction, std::move(report));
}

void Manager::on_time(Time now) {
  std::vector<u64> gone;
  for (const auto& [guid, node] : nodes_)
    if (node.heard + options_.patience < now) gone.push_back(guid);
  for (const u64 guid : gone) node_is_gone(guid);
}

void Manager::node_is_gone(u64 guid) {
  const auto node = nodes_.find(guid);
  if (node == nodes_.end()) return;
  const std::string name = node->second.facts.name;
  tell(fmt::format("{} is gone", name));
  std::vector<u32> hit;
  for (const auto& [number, job] : jobs_)
    if (std::any_of(job.vertices.begin(), job.vertices.end(), [&](const Vertex& one) { return one.guid == guid; }))
      hit.push_back(number);
  for (const u32 number : hit) end(number, fmt::format("{} is gone", name));
  nodes_.erase(guid);
}

}  // namespace softib::aggregation
