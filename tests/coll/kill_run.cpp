#include "kill_run.h"

#include <infiniband/verbs.h>
#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include "ranks.h"

namespace softib::coll::test {

namespace {

using std::chrono::steady_clock;

constexpr auto limit = std::chrono::seconds(20);

// A virtual HCA's driver keeps some things for the next one who opens a device.
void warm_up_devices() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i)
    if (ibv_context* context = ibv_open_device(list[i]); context != nullptr) ibv_close_device(context);
  if (list != nullptr) ibv_free_device_list(list);
}

// What this process has of the library's: descriptors, and mappings of its memory files.
struct Belongings {
  std::map<std::string, std::string> descriptors;
  std::size_t mappings = 0;
};

// Memory of it.
bool is_of_driver(const std::string& name) {
  return name.find("memfd:softib ") != std::string::npos || name.find("memfd:softib-segment") != std::string::npos ||
         name.find("[userfaultfd]") != std::string::npos;
}

// It keeps the ends of other processes' channels until it next opens one.
bool has_no_reader(const std::string& descriptor) {
  pollfd polled{std::stoi(descriptor), 0, 0};
  return ::poll(&polled, 1, 0) == 1 && (polled.revents & POLLERR) != 0;
}

Belongings belongings() {
  Belongings all;
  std::error_code gone;  // the one by which this reads
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    if (const std::string name = std::filesystem::read_symlink(entry.path(), gone);
        name.find("/maps") == std::string::npos && !is_of_driver(name) &&
        !(name.starts_with("pipe:") && has_no_reader(entry.path().filename())))
      all.descriptors[entry.path().filename()] = name;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:softib-") != std::string::npos && !is_of_driver(line)) ++all.mappings;
  return all;
}

// The threads of meetings stay a few seconds for latecomers.
std::string left_behind(const Belongings& before) {
  constexpr auto patience = std::chrono::seconds(10);
  const auto end = steady_clock::now() + patience;
  Belongings now = belongings();
  const auto more = [&] {
    return now.descriptors.size() > before.descriptors.size() || now.mappings > before.mappings;
  };
  while (more() && steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    now = belongings();
  }
  if (!more()) return {};
  std::string text = "left behind: " + std::to_string(now.mappings - before.mappings) + " mappings";
  for (const auto& [number, name] : now.descriptors)
    if (!before.descriptors.contains(number)) text += ", " + number + " " + name;
  return text;
}

// Works on a communicator until an error.
class Worker {
 public:
  Worker(Communicator& whole, u64 seed)
      : whole_(whole), random_(seed), memory_(most * whole.size()), other_(memory_.size()) {}

  Error work() {
    while (true) {
      if (Done done = step(whole_, random_); !done) return done.error();
      if (random_() % 4 != 0) continue;
      std::mt19937_64 random(random_());
      const auto part = whole_.split(static_cast<i32>(whole_.rank() % 2), 0);
      if (!part) return part.error();
      // In a part the same death is met by some, and the others meet it later.
      Done done;
      for (u64 left = random() % 20; left > 0 && done; --left) done = step(**part, random);
      if (!done) part_error_ = done.error();
    }
  }
  [[nodiscard]] const std::optional<Error>& part_error() const { return part_error_; }

 private:
  static constexpr u64 most = 200'000;

  static Done wait(Communicator& on, const Started& started) {
    return started ? on.wait(*started) : Done(tl::unexpected(started.error()));
  }

  // All ranks of a communicator do the same, by the number of the step.
  Done step(Communicator& on, std::mt19937_64& random) {
    const u64 kind = random() % 5;
    const u64 count = random() % 3 == 0 ? random() % most : random() % 2000;
    float* in = memory_.data();
    float* out = other_.data();
    switch (kind) {
      case 0:
        return wait(on, on.start_all_to_all(in, out, count, DataType::float32));
      case 1:
        return wait(on, on.start_broadcast(in, in, count, DataType::float32, static_cast<u32>(count % on.size())));
      case 2:
        return messages(on, count);
      default:
        return wait(on, on.start_all_reduce(in, out, count, {}));
    }
  }

  Done messages(Communicator& on, u64 count) {
    std::vector<PointToPoint> all;
    for (u32 peer = 0; peer < on.size(); ++peer) {
      all.push_back({PointToPoint::Kind::send, peer, memory_.data(), count});
      all.push_back({PointToPoint::Kind::receive, peer, other_.data() + peer * most, count});
    }
    return wait(on, on.start_messages(all));
  }

  Communicator& whole_;
  std::mt19937_64 random_;
  std::vector<float> memory_;
  std::vector<float> other_;
  std::optional<Error> part_error_;
};

std::string fault_of_error(const Error& error, const Member& victim) {
  if (error.code != Code::remote_error) return "not a remote error: " + error.text;
  if (error.text.find("ended") == std::string::npos) return "doesn't tell of an end: " + error.text;
  if (error.text.find("on " + victim.host) == std::string::npos) return "names no host: " + error.text;
  return {};
}

std::string use_survivors(Communicator& broken, u32 left) {
  const auto smaller = broken.shrink();
  if (!smaller) return "shrink: " + smaller.error().text;
  if ((*smaller)->size() != left) return "shrink left " + std::to_string((*smaller)->size());
  for (u32 time = 0; time < 3; ++time) {
    std::vector<i32> ones(30'000, 1);
    const Started started = (*smaller)->start_all_reduce(ones.data(), ones.data(), ones.size(), {DataType::int32});
    const Done done = started ? (*smaller)->wait(*started) : Done(tl::unexpected(started.error()));
    if (!done) return "after shrink: " + done.error().text;
    if (ones.front() != static_cast<i32>(left) || ones.back() != ones.front()) return "after shrink: a wrong sum";
  }
  return {};
}

Survival see_the_end(Communicator& whole, const KillTrial& trial) {
  Survival survival;
  const Member victim = whole.members()[trial.victim];
  // Before that the others may not be through with connecting.
  const Started all_here = whole.start_barrier();
  const Done here = all_here ? whole.wait(*all_here) : Done(tl::unexpected(all_here.error()));
  if (whole.rank() == trial.victim) die_after(trial.when);
  Worker worker(whole, trial.seed);
  const Error error = here ? worker.work() : here.error();
  survival.told = steady_clock::now();
  survival.error = error.text;
  survival.fault = fault_of_error(error, victim);
  if (survival.fault.empty() && error.text.find(name_of(victim)) == std::string::npos)
    survival.fault = "names another rank: " + error.text;
  if (survival.fault.empty() && worker.part_error()) survival.fault = fault_of_error(*worker.part_error(), victim);
  if (survival.fault.empty()) survival.fault = use_survivors(whole, trial.ranks - 1);
  return survival;
}

}  // namespace

KillTrial any_kill(u32 ranks, std::mt19937_64& random) {
  KillTrial trial{ranks};
  trial.victim = static_cast<u32>(random() % ranks);
  // As likely within the first millisecond as in any ten times as long a time.
  const u64 scale = std::vector<u64>{1000, 10'000, 100'000}[random() % 3];
  trial.when = std::chrono::microseconds(random() % scale);
  trial.seed = random();
  return trial;
}

Survival survive(const UniqueId& id, const KillTrial& trial, u32 rank) {
  warm_up_devices();
  const Belongings before = belongings();
  Config config;
  config.timeout = limit;
  Survival survival;
  {
    const auto whole = Communicator::create(id, trial.ranks, rank, config);
    if (!whole) return {"no communicator: " + whole.error().text, {}, {}};
    survival = see_the_end(**whole, trial);
  }
  if (survival.fault.empty()) survival.fault = left_behind(before);
  return survival;
}

}  // namespace softib::coll::test
