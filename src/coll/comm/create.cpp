// How communicators come to be: new ones, parts of one, and what is left of one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "coll/comm/body.h"
#include "coll/log.h"

namespace softib::coll {

namespace {

constexpr auto obstacle_lag = std::chrono::milliseconds(300);

// What ranks tell each other once they are connected: all must plan alike.
struct Creed {
  u64 tuning = 0;
  u8 within = 0;   // the worst way to a rank on this host
  u8 between = 0;  // to others
  u8 checks = 0;
  std::array<u8, 5> unused{};  // sent as bytes: no padding
};

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
Outcome<std::vector<T>> gather_values(Bootstrap& bootstrap, const T& mine) {
  const auto blobs = bootstrap.all_gather(bytes_of(mine));
  if (!blobs) return tl::unexpected(blobs.error());
  std::vector<T> values(blobs->size());
  for (std::size_t rank = 0; rank < blobs->size(); ++rank) {
    if ((*blobs)[rank].size() != sizeof(T))
      return refuse(Code::invalid_usage,
                    fmt::format("rank {} runs another version of this library, or another program", rank));
    std::memcpy(&values[rank], (*blobs)[rank].data(), sizeof(T));
  }
  return values;
}

bool same_host(std::span<const Member> members, u32 a, u32 b) { return members[a].host_key == members[b].host_key; }

Creed creed_of(const Bootstrap& bootstrap, const Links& links, const Tuner& tuner, bool checks) {
  const std::span<const Member> members = bootstrap.members();
  const u32 rank = bootstrap.rank();
  Creed creed{.tuning = tuner.digest(), .checks = checks};
  for (u32 peer = 0; peer < members.size(); ++peer) {
    const bool local = same_host(members, rank, peer);
    u8& worst = local ? creed.within : creed.between;
    worst = std::max(worst, static_cast<u8>(links.ways[peer]));
  }
  return creed;
}

std::vector<u32> hosts_of(std::span<const Member> members) {
  std::vector<u32> hosts;
  for (const Member& member : members) {
    const auto first = std::find_if(members.begin(), members.end(),
                                    [&](const Member& other) { return other.host_key == member.host_key; });
    hosts.push_back(static_cast<u32>(first - members.begin()));
  }
  return hosts;
}

Outcome<Tuner> agreed_tuner(Bootstrap& bootstrap, const Links& links, const Environment& environment) {
  std::vector<TuningLine> lines;
  if (!environment.tuning_file.empty()) {
    auto read = read_tuning_file(environment.tuning_file);
    if (!read) return tl::unexpected(read.error());
    lines = std::move(*read);
  }
  Landscape landscape;
  landscape.ranks = static_cast<u32>(bootstrap.members().size());
  landscape.hosts = hosts_of(bootstrap.members());
  landscape.network = links.network;
  const Tuner alone(landscape, environment.algo, lines);
  const Creed mine = creed_of(bootstrap, links, alone, environment.checks);
  const auto creeds = gather_values(bootstrap, mine);
  if (!creeds) return tl::unexpected(creeds.error());
  landscape.between = Way::shm;
  for (u32 rank = 0; rank < creeds->size(); ++rank) {
    const Creed& creed = (*creeds)[rank];
    if (creed.tuning != mine.tuning || creed.checks != mine.checks)
      return refuse(Code::invalid_usage,
                    fmt::format("{} has other values of SOFTIB_ALGO, SOFTIB_TUNING_FILE or SOFTIB_CHECKS than {}",
                                text_of(bootstrap.members()[rank]), text_of(bootstrap.members()[bootstrap.rank()])));
    landscape.within = std::max(landscape.within, static_cast<Way>(creed.within));
    landscape.between = std::max(landscape.between, static_cast<Way>(creed.between));
  }
  return Tuner(std::move(landscape), environment.algo, std::move(lines));
}

// What split() needs to know of everybody.
struct Wish {
  i32 color = 0;
  i32 key = 0;
};

// Ranks of my color in their new order.
std::vector<u32> ranks_of(const std::vector<Wish>& wishes, i32 color) {
  std::vector<u32> ranks;
  for (u32 rank = 0; rank < wishes.size(); ++rank)
    if (wishes[rank].color == color) ranks.push_back(rank);
  std::stable_sort(ranks.begin(), ranks.end(), [&](u32 a, u32 b) { return wishes[a].key < wishes[b].key; });
  return ranks;
}

}  // namespace

Outcome<std::unique_ptr<Communicator::Body>> Communicator::Body::create(
    const Ground& ground, const UniqueId& id, Seat seat, const Config& given,
    const std::function<std::optional<Error>()>& obstacle) {
  if (seat.ranks == 0 || seat.rank >= seat.ranks)
    return refuse(Code::invalid_argument, fmt::format("rank {} of {} ranks", seat.rank, seat.ranks));
  Environment environment = Environment::read();
  if (seat.rank == 0) log::tell_version();
  Config config = given;
  if (environment.timeout) config.timeout = *environment.timeout;
  auto bootstrap = ground.meet(id, {.ranks = seat.ranks, .rank = seat.rank, .obstacle = obstacle});
  if (!bootstrap) return tl::unexpected(bootstrap.error());
  const auto give_up = [&bootstrap](const Error& error) {
    (*bootstrap)->abort(error.text);
    return tl::unexpected<Error>(error);
  };
  auto links = ground.connect(**bootstrap, environment);
  if (!links) return give_up(links.error());
  auto tuner = agreed_tuner(**bootstrap, *links, environment);
  if (!tuner) return give_up(tuner.error());
  return std::make_unique<Body>(ground, std::move(environment), config, std::move(*bootstrap), std::move(*links),
                                std::move(*tuner));
}

// A member's end is the end of this communicator, also where it only shows in a part of it. There the ranks have other
// numbers, so what is told is what is known here.
std::optional<Error> Communicator::Body::obstacle_to_split() {
  if (fate_.has_ended()) return fate_.error();
  if (const std::optional<Error> news = fate_.look())
    fail({news->code, fate_.is_told()
                          ? news->text
                          : fmt::format("{} while {} waits in split", news->text, text_of(members()[seat_.rank]))});
  return fate_.error();
}

// Some connection broke; the end of whoever was behind it shows here as well, and soon.
std::optional<Error> Communicator::Body::wait_for_obstacle(const std::function<std::optional<Error>()>& look) const {
  const int descriptor = bootstrap_->descriptor();
  std::optional<Error> found = look();
  for (const auto end = Clock::now() + obstacle_lag; !found && Clock::now() < end; found = look())
    Patience::sleep({&descriptor, 1}, true, obstacle_lag);
  return found;
}

Outcome<std::unique_ptr<Communicator::Body>> Communicator::Body::split(i32 color, i32 key) {
  if (fate_.has_ended()) return ended();
  auto part = make_part(color, key);
  if (part) return part;
  if (const auto error = wait_for_obstacle([this] { return obstacle_to_split(); })) return tl::unexpected(*error);
  return part;
}

Outcome<std::unique_ptr<Communicator::Body>> Communicator::Body::make_part(i32 color, i32 key) {
  const auto wishes = gather_values(*bootstrap_, Wish{color, key});
  if (!wishes) return tl::unexpected(wishes.error());
  const std::vector<u32> ranks = color < 0 ? std::vector<u32>{} : ranks_of(*wishes, color);
  UniqueId mine;
  std::optional<Error> error;
  if (!ranks.empty() && ranks[0] == seat_.rank) {
    auto made = ground_.make_id();
    if (made)
      mine = *made;
    else
      error = made.error();
  }
  const auto place = static_cast<u32>(std::find(ranks.begin(), ranks.end(), seat_.rank) - ranks.begin());
  const auto ids = gather_values(*bootstrap_, mine);
  if (!ids && mine.bytes != UniqueId().bytes && ground_.call_off)
    ground_.call_off(mine, {.ranks = static_cast<u32>(ranks.size()), .rank = place}, ids.error());
  if (!ids) return tl::unexpected(ids.error());
  if (error) return tl::unexpected(*error);
  if (ranks.empty()) return std::unique_ptr<Body>();
  return create(ground_, (*ids)[ranks[0]], {place, static_cast<u32>(ranks.size())}, config_,
                [this] { return obstacle_to_split(); });
}

Outcome<std::unique_ptr<Communicator::Body>> Communicator::Body::shrink(std::span<const u32> excluded) {
  if (fate_.has_ended()) clean_up();
  const auto left = survivors_.agree({excluded.begin(), excluded.end()}, config_.timeout);
  if (!left) return tl::unexpected(left.error());
  auto made = make_of(*left);
  if (made) return made;
  if (const auto error = wait_for_obstacle([&] { return obstacle_among(*left); })) return tl::unexpected(*error);
  return made;
}

// Of those who agreed on going on, one that has ended since.
std::optional<Error> Communicator::Body::obstacle_among(const std::vector<u32>& left) {
  while (fate_.look()) continue;
  for (const u32 rank : left)
    if (fate_.dead().contains(rank))
      return Error{Code::remote_error, fmt::format("{} has ended while {} waits in shrink", text_of(members()[rank]),
                                                   text_of(members()[seat_.rank]))};
  return std::nullopt;
}

Outcome<std::unique_ptr<Communicator::Body>> Communicator::Body::make_of(const std::vector<u32>& left) {
  UniqueId id;
  if (left[0] == seat_.rank) {
    const auto made = ground_.make_id();
    if (!made) return tl::unexpected(made.error());
    survivors_.give_id(*made);
    id = *made;
  } else {
    const auto received = survivors_.receive_id(left[0]);
    if (!received) return tl::unexpected(received.error());
    id = *received;
  }
  const auto place = static_cast<u32>(std::find(left.begin(), left.end(), seat_.rank) - left.begin());
  return create(ground_, id, {place, static_cast<u32>(left.size())}, config_, [&] { return obstacle_among(left); });
}

}  // namespace softib::coll
