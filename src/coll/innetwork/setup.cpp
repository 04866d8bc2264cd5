#include "coll/innetwork/setup.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "coll/innetwork/subnet.h"
#include "coll/innetwork/verbs_tree.h"
#include "coll/log.h"

namespace softib::coll::innetwork {

namespace {

constexpr std::size_t most_trouble = 1024;

// What a rank tells the others at each step: what troubles it, and something of the step's own.
Bytes told(const std::string& trouble, std::span<const std::byte> rest) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.text(trouble, most_trouble);
  writer.bytes(rest);
  return bytes;
}

class Growing {
 public:
  Growing(Bootstrap& bootstrap, const Environment& environment)
      : bootstrap_(bootstrap), environment_(environment), rank_(bootstrap.rank()) {
    const std::span<const coll::Member> members = bootstrap.members();
    for (u32 rank = 0; rank < members.size(); ++rank)
      if (first_on_host(rank) == rank) leaders_.push_back(rank);
    const auto mine = std::find(leaders_.begin(), leaders_.end(), rank_);
    leads_ = mine != leaders_.end();
    place_ = static_cast<std::size_t>(mine - leaders_.begin());
  }

  Outcome<std::unique_ptr<Tree>> run() {
    if (leaders_.size() < 2) return refuse(Code::invalid_usage, "all ranks are on one host");
    const Bytes end = prepare();
    auto ends = agree(end);
    if (!ends) return tl::unexpected(ends.error());
    const Bytes answer = rank_ == 0 ? begin_job(*ends) : Bytes();
    auto answers = agree(answer);
    if (!answers) return tl::unexpected(answers.error());
    take_place((*answers)[0]);
    auto ready = agree({});
    if (!ready) {
      end_job();
      return tl::unexpected(ready.error());
    }
    return std::move(tree_);
  }

 private:
  [[nodiscard]] u32 first_on_host(u32 rank) const {
    const std::span<const coll::Member> members = bootstrap_.members();
    u32 first = 0;
    while (members[first].host_key != members[rank].host_key) ++first;
    return first;
  }

  void give_in(const std::string& why) {
    if (trouble_.empty()) trouble_ = why;
  }

  // All ranks' words; the first trouble of any is everybody's.
  Outcome<std::vector<Bytes>> agree(std::span<const std::byte> mine) {
    auto all = bootstrap_.all_gather(told(trouble_, mine));
    if (!all) return tl::unexpected(all.error());
    std::vector<Bytes> rest;
    for (u32 rank = 0; rank < all->size(); ++rank) {
      ByteReader reader((*all)[rank]);
      const std::string trouble = reader.text(most_trouble);
      const auto bytes = reader.rest();
      if (!reader.ok()) return refuse(Code::invalid_usage, "ranks run different versions of this library");
      if (!trouble.empty())
        return refuse(Code::system_error,
                      rank == 0 ? trouble : fmt::format("{}: {}", name_of(bootstrap_.members()[rank]), trouble));
      rest.emplace_back(bytes.begin(), bytes.end());
    }
    return rest;
  }

  Bytes prepare() {
    if (!leads_) return {};
    auto made = VerbsTree::make(environment_, static_cast<i32>(rank_));
    if (!made) {
      give_in(made.error().text);
      return {};
    }
    tree_ = std::move(*made);
    BeginJob one;
    one.members.push_back({tree_->end(), name_of(bootstrap_.members()[rank_])});
    return emit(Words(one));
  }

  // Rank 0 asks for all.
  Bytes begin_job(const std::vector<Bytes>& ends) {
    BeginJob job;
    job.ranks = static_cast<u32>(ends.size());
    job.sl = environment_.ib_sl;
    job.wanted.outstanding = most_outstanding;
    for (const u32 leader : leaders_) {
      const auto words = parse_words(ends[leader]);
      const auto* one = words ? std::get_if<BeginJob>(&*words) : nullptr;
      if (one == nullptr || one->members.size() != 1) {
        give_in("ranks run different versions of this library");
        return {};
      }
      job.members.push_back(one->members[0]);
    }
    auto desk = ManagerDesk::find(tree_->port(), tree_->settings());
    auto answer = desk ? (*desk)->ask(job) : Outcome<Words>(tl::unexpected(desk.error()));
    if (desk) desk_ = std::move(*desk);
    if (!answer) {
      give_in(answer.error().text);
      return {};
    }
    const auto* begun = std::get_if<JobBegun>(&*answer);
    if (begun == nullptr || begun->nodes.size() != leaders_.size()) {
      give_in("the aggregation manager answers what wasn't asked");
      return {};
    }
    begun_ = *begun;
    log::info(static_cast<i32>(rank_), Subsystem::init,
              "COLLNET : job {:#x} of {} hosts, tree {}; segments of {} bytes, {} outstanding", begun->job,
              leaders_.size(), begun->tree, begun->quota.segment_bytes, begun->quota.outstanding);
    return emit(*answer);
  }

  void take_place(const Bytes& answer) {
    if (!leads_) return;
    const auto words = parse_words(answer);
    const auto* begun = words ? std::get_if<JobBegun>(&*words) : nullptr;
    if (begun == nullptr) return give_in("ranks run different versions of this library");
    const innetwork::Member& node = begun->nodes[place_];
    log::info(static_cast<i32>(rank_), Subsystem::init, "COLLNET : {}:{} to {}", tree_->port().device,
              tree_->port().number, node.name);
    if (auto connected = tree_->connect({begun->job, begun->quota, node.end, node.name, leaders_}); !connected)
      give_in(connected.error().text);
  }

  // Somebody couldn't take its place.
  void end_job() {
    tree_.reset();
    if (desk_ && begun_.job != 0) static_cast<void>(desk_->ask(EndJob{begun_.job, begun_.key}));
  }

  Bootstrap& bootstrap_;
  const Environment& environment_;
  const u32 rank_;
  std::vector<u32> leaders_;  // the first rank of each host
  bool leads_ = false;
  std::size_t place_ = 0;
  std::string trouble_;
  std::unique_ptr<VerbsTree> tree_;
  std::unique_ptr<ManagerDesk> desk_;
  JobBegun begun_;
};

// Where the manager is, as subnet administration has it; the `attempt`th of several, of whom one only is alive.
Outcome<Correspondent> registered_manager(Subnet& subnet, u32 attempt) {
  const auto records = subnet.get(find_manager());
  if (!records) return tl::unexpected(records.error());
  std::vector<ManagerAddress> all;
  for (const Octets& record : *records)
    if (const auto one = parse_manager(record)) all.push_back(*one);
  if (all.empty())
    return refuse(Code::system_error,
                  "no aggregation manager is registered with the subnet manager; softib-aggregation runs one");
  const ManagerAddress& address = all[attempt % all.size()];
  if (address.version != protocol_version)
    return refuse(Code::system_error, fmt::format("the aggregation manager speaks version {}, this is {}",
                                                  address.version, protocol_version));
  return Correspondent{address.lid, address.pair};
}

}  // namespace

Outcome<std::unique_ptr<Tree>> make_tree(Bootstrap& bootstrap, const Environment& environment) {
  return Growing(bootstrap, environment).run();
}

// The record of a manager that has died is there until its lease ends, or the next one has registered.
Outcome<std::unique_ptr<ManagerDesk>> ManagerDesk::find(const OpenPort& port, const PairSettings& settings) {
  constexpr u32 attempts = 4;
  auto subnet = Subnet::open(port.device, port.number);
  if (!subnet) return tl::unexpected(subnet.error());
  auto desk = std::make_unique<ManagerDesk>();
  auto post = Post::open(port, settings, {.again = std::chrono::milliseconds(250), .tries = 60});
  if (!post) return tl::unexpected(post.error());
  desk->post_ = std::move(*post);
  Error silence;
  for (u32 attempt = 0; attempt < attempts; ++attempt) {
    const auto manager = registered_manager(**subnet, attempt);
    if (!manager) return tl::unexpected(manager.error());
    desk->manager_ = *manager;
    auto there = desk->ask(AskReport{}, std::chrono::seconds(1));
    if (there) return desk;
    silence = there.error();
  }
  return refuse(silence.code, silence.text + "; has its program ended?");
}

Outcome<Words> ManagerDesk::ask(const Words& words, std::chrono::seconds patience) {
  using Clock = std::chrono::steady_clock;
  const u64 transaction = post_->mailbox().ask(manager_, emit(words), Clock::now());
  for (const auto end = Clock::now() + patience; Clock::now() < end;) {
    const bool moved = post_->turn(Clock::now());
    while (const auto event = post_->mailbox().next_event()) {
      if (event->transaction != transaction || event->kind != Mailbox::Event::Kind::answer) continue;
      auto answer = parse_words(event->message);
      if (!answer) return refuse(Code::system_error, "the aggregation manager's answer can't be read");
      if (const auto* refused = std::get_if<Refused>(&*answer)) return refuse(Code::system_error, refused->why);
      return *answer;
    }
    if (moved || !post_->arm() || post_->turn(Clock::now())) continue;
    pollfd wait{post_->descriptor(), POLLIN, 0};
    static_cast<void>(::poll(&wait, 1, 50));
  }
  post_->mailbox().forget(transaction);
  return refuse(Code::system_error, fmt::format("the aggregation manager at LID {} doesn't answer", manager_.lid));
}

}  // namespace softib::coll::innetwork
