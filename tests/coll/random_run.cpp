#include "random_run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "ranks.h"

namespace softib::coll::test {

namespace {

constexpr std::size_t collectives = 9;
constexpr u64 most_bytes = u64{4} << 20;  // that a rank gives, roughly

template <typename T>
T one_of(std::initializer_list<T> values, std::mt19937_64& random) {
  return values.begin()[random() % values.size()];
}

// Lines for every collective: one way up to some size, and another one beyond.
std::string any_tuning(std::mt19937_64& random) {
  std::ostringstream text;
  for (std::size_t number = 0; number < collectives; ++number) {
    std::vector<const AlgorithmRow*> rows;
    for (const AlgorithmRow& row : algorithms())
      if (row.collective == static_cast<Collective>(number)) rows.push_back(&row);
    for (const char* up_to : {one_of({"100", "4K", "64K"}, random), "*"})
      text << name_of(rows[0]->collective) << " * * " << up_to << " "
           << name_of(rows[random() % rows.size()]->algorithm) << " " << one_of({1, 1, 2, 3, 5, 16}, random) << " "
           << 1 + random() % 4 << "\n";
  }
  return text.str();
}

u64 any_count(Collective collective, u32 ranks, std::mt19937_64& random) {
  const u64 most = one_of<u64>({3, 3, 3, 300, 300, 300, 300, 20'000, 20'000, 400'000}, random);
  const bool blocks =
      collective != Collective::all_reduce && collective != Collective::broadcast && collective != Collective::reduce;
  return std::min(most, most_bytes / 8 / (blocks ? ranks : 1));
}

void set_switch(const char* name, bool on) { ::setenv(name, on ? "1" : "0", 1); }

}  // namespace

RandomRun::RandomRun(Communicator& whole, const Freedom& freedom, std::string folder)
    : whole_(whole), freedom_(freedom), folder_(std::move(folder)) {}

// Communicators that are made from here on read them.
void RandomRun::choose_settings(std::mt19937_64& random) {
  const std::string path = folder_ + "/tuning-" + std::to_string(::getpid());
  std::ofstream(path) << any_tuning(random);
  if (random() % 8 == 0)
    ::unsetenv("SOFTIB_TUNING_FILE");
  else
    ::setenv("SOFTIB_TUNING_FILE", path.c_str(), 1);
  set_switch("SOFTIB_CHECKS", random() % 8 == 0);
  const u64 chances = random();
  if (freedom_.shm) set_switch("SOFTIB_SHM_DISABLE", chances % 3 == 0);
  if (freedom_.verbs) set_switch("SOFTIB_IB_DISABLE", chances / 3 % 3 == 0);
  if (!freedom_.hosts) return;
  const u64 hosts = chances / 9 % 2 == 0 ? 1 : 3;
  u64 place = 0;
  for (u32 rank = 0; rank <= whole_.rank(); ++rank) place = random() % hosts;
  for (u32 rank = whole_.rank() + 1; rank < whole_.size(); ++rank) random();
  ::setenv("SOFTIB_HOSTID", (whole_.members()[whole_.rank()].host + "-" + std::to_string(place)).c_str(), 1);
}

std::string RandomRun::session(u64 seed) {
  std::mt19937_64 random(seed);
  choose_settings(random);
  ++tally_.sessions;
  // Of some sizes: all, one rank, anything between; some ranks are in none.
  const u64 colors = 1 + random() % 3;
  i32 color = 0;
  i32 key = 0;
  for (u32 rank = 0; rank < whole_.size(); ++rank) {
    const i32 its_color = random() % 8 == 0 ? -1 : static_cast<i32>(random() % colors);
    const i32 its_key = static_cast<i32>(random() % 100);
    if (rank == whole_.rank()) color = its_color, key = its_key;
  }
  const auto part = whole_.split(color, key);
  if (!part) return "split: " + part.error().text;
  if (!*part) return {};
  ++tally_.communicators;
  const std::string fault = use_part(**part, seed + 1000 * static_cast<u64>(color + 1));
  return fault.empty() ? use_half(**part, seed) : fault;
}

std::string RandomRun::use_half(Communicator& part, u64 seed) {
  if (seed % 3 != 0) return {};
  const auto half = part.split(static_cast<i32>(part.rank() % 2), 0);
  if (!half) return "split of a part: " + half.error().text;
  ++tally_.communicators;
  const std::string fault = use_part(**half, seed + 7 + part.rank() % 2);
  return fault.empty() ? use_part(part, seed + 9) : fault;
}

std::string RandomRun::use_part(Communicator& part, u64 seed) {
  std::mt19937_64 random(seed);
  std::string fault;
  for (u64 batches = 2 + random() % 6; batches > 0 && fault.empty(); --batches) fault = batch(part, random);
  return fault;
}

std::optional<RandomRun::Part> RandomRun::any_part(Communicator& part, std::mt19937_64& random) {
  const u64 seed = random();
  if (random() % 5 == 0) {
    MessagesRank messages(part, std::mt19937_64(seed));
    if (!messages.takes_part()) return std::nullopt;
    tally_.messages += messages.size();
    return Part{std::move(messages), "messages"};
  }
  const auto collective = static_cast<Collective>(random() % collectives);
  CallTrial trial = any_call(collective, part.size(), any_count(collective, part.size(), random), random);
  trial.scattered = random() % 2 == 0;
  std::ostringstream what;
  what << trial;
  ++tally_.collectives;
  return Part{CallRank(trial, part.rank(), &part), what.str()};
}

// Several at once, waited for in any order and in any way.
std::string RandomRun::batch(Communicator& part, std::mt19937_64& random) {
  std::mt19937_64 own(random() + part.rank());
  std::deque<Part> started;
  for (u64 left = 1 + random() % 5; left > 0; --left) {
    std::optional<Part> made = any_part(part, random);
    if (!made) continue;
    if (own() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 2000));
    started.push_back(std::move(*made));
    const auto request = std::visit([&](auto& each) { return each.start(part); }, started.back().call);
    if (!request) return started.back().what + ": " + request.error().text;
    started.back().request = *request;
  }
  std::shuffle(started.begin(), started.end(), own);
  for (Part& each : started) {
    Outcome<bool> done = own() % 2 == 0;
    while (done && !*done) done = part.test(each.request);
    const Done waited = done ? part.wait(each.request) : Done(tl::unexpected(done.error()));
    if (!waited) return each.what + ": " + waited.error().text;
    const std::string fault = std::visit([](const auto& call) { return call.fault(); }, each.call);
    if (!fault.empty()) return each.what + ": " + fault;
  }
  return {};
}

MessagesRank::MessagesRank(Communicator& communicator, std::mt19937_64 random) {
  const u32 ranks = communicator.size();
  const u32 rank = communicator.rank();
  const u64 sparse = 1 + random() % 4;
  std::vector<Parcel> parcels;
  for (u32 from = 0; from < ranks; ++from)
    for (u32 to = 0; to < ranks; ++to)
      for (u64 left = random() % sparse == 0 ? 1 + random() % 3 : 0; left > 0; --left) {
        const u64 most = one_of<u64>({10, 2000, 9000, 40'000, 700'000}, random);
        const u64 bytes = most > 100'000 && random() % 4 != 0 ? 0 : random() % most;
        const u64 name = random();
        // A message to oneself has both sides here.
        if (from == rank) parcels.push_back({PointToPoint::Kind::send, to, name, std::vector<std::byte>(bytes)});
        if (to == rank) parcels.push_back({PointToPoint::Kind::receive, from, name, std::vector<std::byte>(bytes)});
      }
  random.seed(random() + rank);
  shuffle(std::move(parcels), random);
  for (Parcel& parcel : parcels_) {
    if (parcel.kind == PointToPoint::Kind::send) fill_pattern(parcel.bytes, parcel.name);
    messages_.push_back({parcel.kind, parcel.peer, parcel.bytes.data(), parcel.bytes.size()});
  }
}

// Any order but that of messages of one kind with one peer.
void MessagesRank::shuffle(std::vector<Parcel> parcels, std::mt19937_64& random) {
  std::map<std::pair<PointToPoint::Kind, u32>, std::deque<Parcel>> queues;
  std::vector<std::pair<PointToPoint::Kind, u32>> order;
  for (Parcel& parcel : parcels) {
    order.emplace_back(parcel.kind, parcel.peer);
    queues[order.back()].push_back(std::move(parcel));
  }
  std::shuffle(order.begin(), order.end(), random);
  for (const auto& next : order) {
    parcels_.push_back(std::move(queues[next].front()));
    queues[next].pop_front();
  }
}

std::string MessagesRank::fault() const {
  for (const Parcel& parcel : parcels_)
    if (const u64 at = first_difference(parcel.bytes, parcel.name); at != parcel.bytes.size())
      return "message with rank " + std::to_string(parcel.peer) + ": byte " + std::to_string(at) + " of " +
             std::to_string(parcel.bytes.size());
  return {};
}

}  // namespace softib::coll::test
