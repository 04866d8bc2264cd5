#include "coll/bootstrap/joining.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "base/error_text.h"
#include "coll/bootstrap/identity.h"
#include "coll/bootstrap/reaching.h"

namespace softib::coll {

namespace {

constexpr auto time_for_answer = std::chrono::seconds(3);  // of the meeting, to who gives up
constexpr auto obstacles_apart = std::chrono::milliseconds(50);
constexpr std::size_t least_strangers = 256;

std::string seconds_of(std::chrono::nanoseconds time) {
  return fmt::format("{:.3g} s", std::chrono::duration<double>(time).count());
}

}  // namespace

Joining::Joining(const MeetingPlace& place, const BootstrapOptions& options, const Environment& environment)
    : place_(place), options_(options), environment_(environment), deadline_(Clock::now() + options.timeout) {
  me_.member = own_identity(environment);
  me_.member.rank = options.rank;
  for (u32 peer = 0; peer < options.ranks; ++peer) peers_.emplace_back(Fd(), most_frame_bytes);
  connected_.resize(options.ranks);
  missing_ = options.ranks - 1;
}

Outcome<Joining::Joined> Joining::run() {
  raise_descriptor_limit();
  if (auto done = reach_meeting(); !done) return tl::unexpected(done.error());
  if (auto done = listen(); !done) return tl::unexpected(done.error());
  say_hello();
  while (!go_) {
    if (Clock::now() >= deadline_) return tl::unexpected(gave_up());
    if (auto error = obstacle()) return tl::unexpected(*error);
    if (auto done = wait(); !done) return tl::unexpected(done.error());
  }
  Joined joined;
  for (const Guest& guest : guests_) joined.members.push_back(guest.member);
  joined.peers = std::move(peers_);
  return joined;
}

// The others of the meeting are told.
std::optional<Error> Joining::obstacle() {
  auto error = options_.obstacle ? options_.obstacle() : std::nullopt;
  if (!error) return std::nullopt;
  meeting_.post(static_cast<u16>(MeetingMessage::give_up), Reason{error->code, "gave up: " + error->text}.emit());
  static_cast<void>(meeting_.flush());
  return error;
}

Outcome<void> Joining::reach_meeting() {
  auto reached = Reaching(place_, deadline_).run();
  if (!reached) {
    std::string text = fmt::format("{} {}", name_of(me_.member), reached.error().text);
    if (Clock::now() >= deadline_)
      text += fmt::format("; it gave up after {}, and {}", seconds_of(options_.timeout), who_says_where());
    return refuse(reached.error().code, std::move(text));
  }
  came_by_ = reached->which;
  meeting_ = FrameSocket(std::move(reached->fd), most_table_bytes);
  return {};
}

std::string_view Joining::who_says_where() const {
  return place_.kind == MeetingPlace::Kind::agreed ? "SOFTIB_COMM_ID says where ranks meet"
                                                   : "SOFTIB_SOCKET_IFNAME chooses by which interfaces ranks meet";
}

// Where SOFTIB_SOCKET_IFNAME says; else where an address of the meeting is reached from, as the others reach it too.
Outcome<Address> Joining::listening_address(std::size_t network) const {
  const Address& meeting = place_.addresses[network];
  if (environment_.socket_ifname.empty()) {
    const auto address = network == came_by_ ? local_address(meeting_.fd()) : address_towards(meeting);
    if (address) return *address;
  }
  auto chosen = choose_interface(environment_, meeting, list_interfaces());
  if (!chosen) return tl::unexpected(chosen.error());
  return chosen->address;
}

// A listener for each address of this host by which ranks may come. Only the one by which I came is needed for sure.
Outcome<void> Joining::listen() {
  std::vector<Fd> listeners;
  std::vector<Address> addresses;  // of them
  const auto listen_for = [&](std::size_t network) -> Outcome<Address> {
    const auto wanted = listening_address(network);
    if (!wanted) return tl::unexpected(wanted.error());
    for (const Address& known : addresses)
      if (known.host() == wanted->host()) return known;
    auto fd = listen_at(wanted->with_port(0));
    if (!fd)
      return refuse(Code::system_error, fmt::format("can't listen at {}: {}", wanted->host(), error_text(fd.error())));
    addresses.push_back(local_address(fd->get()).value_or(*wanted));
    listeners.push_back(std::move(*fd));
    return addresses.back();
  };
  for (std::size_t network = 0; network < place_.addresses.size(); ++network) {
    const auto address = listen_for(network);
    if (!address && network == came_by_) return tl::unexpected(address.error());
    listens_.push_back(address ? std::optional(*address) : std::nullopt);
  }
  me_.listens = *listens_[came_by_];
  gate_ = Gate(std::move(listeners), most_stranger_bytes, std::max<std::size_t>(least_strangers, 2UL * options_.ranks));
  log::info(static_cast<i32>(options_.rank), Subsystem::bootstrap, "bootstrap uses {}", text_of(addresses));
  return {};
}

void Joining::say_hello() {
  const Hello hello{place_.key, options_.ranks, me_, static_cast<u8>(came_by_), listens_};
  meeting_.post(static_cast<u16>(MeetingMessage::hello), hello.emit());
}

Outcome<void> Joining::wait() {
  if (!meeting_.flush())
    return refuse(Code::remote_error, "the meeting at " + place_.addresses[came_by_].text() + " has ended");
  const short meeting_events = meeting_.sending() ? POLLIN | POLLOUT : POLLIN;
  std::vector<pollfd> polled{{meeting_.fd(), meeting_events, 0}};
  std::vector<u32> under_way;
  for (u32 peer = 0; peer < peers_.size(); ++peer) {
    if (!peers_[peer].open() || connected_[peer]) continue;
    under_way.push_back(peer);
    polled.push_back({peers_[peer].fd(), POLLOUT, 0});
  }
  gate_.add_to(polled);
  Clock::time_point wake = std::min(deadline_, gate_.deadline());
  if (options_.obstacle) wake = std::min(wake, Clock::now() + obstacles_apart);
  const int timeout = milliseconds_until(wake);
  if (::poll(polled.data(), polled.size(), timeout) < 0) return {};  // EINTR
  for (std::size_t i = 0; i < under_way.size(); ++i)
    if (polled[1 + i].revents != 0)
      if (auto done = look_at_peer(under_way[i]); !done) return done;
  gate_.serve(std::span(polled).subspan(1 + under_way.size()),
              [this](FrameSocket& socket, const Frame& first) { admit(socket, first); });
  if (polled[0].revents & (POLLIN | POLLHUP | POLLERR))
    if (auto done = hear_meeting(); !done) return done;
  say_ready_if_so();
  return {};
}

Outcome<void> Joining::hear_meeting() {
  const auto stream = meeting_.receive();
  while (auto frame = meeting_.next()) {
    if (auto done = hear_frame(*frame); !done) return done;
    if (go_) return {};
  }
  if (stream == FrameSocket::Stream::open && !meeting_.broken()) return {};
  return refuse(Code::remote_error, fmt::format("the meeting at {} ended before all ranks were connected",
                                                place_.addresses[came_by_].text()));
}

Outcome<void> Joining::hear_frame(const Frame& frame) {
  const auto message = static_cast<MeetingMessage>(frame.type);
  if (message == MeetingMessage::refused)
    if (const auto reason = Reason::parse(frame.body)) return refuse(reason->code, reason->text);
  if (message == MeetingMessage::go && said_ready_) {
    go_ = true;
    return {};
  }
  if (message == MeetingMessage::table && !have_table_)
    if (const auto table = Table::parse(frame.body); table && table->guests.size() == options_.ranks)
      return begin_connections(*table);
  return refuse(Code::internal_error, fmt::format("{} is no meeting of ranks", place_.addresses[came_by_].text()));
}

Outcome<void> Joining::begin_connections(const Table& table) {
  have_table_ = true;
  guests_ = table.guests;
  for (u32 peer = 0; peer < options_.rank; ++peer) {
    auto fd = begin_connect(guests_[peer].listens);
    if (!fd)
      return refuse(Code::system_error, fmt::format("can't reach {} at {}: {}", name_of(guests_[peer].member),
                                                    guests_[peer].listens.text(), error_text(fd.error())));
    peers_[peer] = FrameSocket(std::move(*fd), most_frame_bytes);
    peers_[peer].post(static_cast<u16>(MeetingMessage::join), Join{place_.key, options_.rank, peer}.emit());
  }
  return {};
}

Outcome<void> Joining::look_at_peer(u32 peer) {
  auto result = connect_result(peers_[peer].fd());
  if (result && !peers_[peer].flush()) result = fail(ECONNRESET);
  if (!result)
    return refuse(Code::remote_error, fmt::format("can't reach {} at {}: {}", name_of(guests_[peer].member),
                                                  guests_[peer].listens.text(), error_text(result.error())));
  if (peers_[peer].sending()) return {};
  connected_[peer] = true;
  --missing_;
  return {};
}

// The table may come later.
void Joining::admit(FrameSocket& socket, const Frame& first) {
  const auto join = Join::parse(first.body);
  if (static_cast<MeetingMessage>(first.type) != MeetingMessage::join || !join || join->key != place_.key) return;
  if (join->to != options_.rank || join->from <= options_.rank || join->from >= options_.ranks) return;
  if (connected_[join->from]) return;
  peers_[join->from] = std::move(socket);
  peers_[join->from].set_limit(most_frame_bytes);
  connected_[join->from] = true;
  --missing_;
}

void Joining::say_ready_if_so() {
  if (!have_table_ || said_ready_ || missing_ > 0) return;
  said_ready_ = true;
  meeting_.post(static_cast<u16>(MeetingMessage::ready), {});
}

// The meeting knows who is missing, and tells it to all.
Error Joining::gave_up() {
  std::string text = fmt::format("gave up after {}", seconds_of(options_.timeout));
  if (!have_table_) text += fmt::format("; ranks meet at {}, and {}", text_of(place_.addresses), who_says_where());
  const Reason reason{Code::remote_error, std::move(text)};
  meeting_.post(static_cast<u16>(MeetingMessage::give_up), reason.emit());
  const Clock::time_point end = Clock::now() + time_for_answer;
  while (Clock::now() < end) {
    if (!meeting_.flush()) break;
    pollfd polled{meeting_.fd(), static_cast<short>(meeting_.sending() ? POLLIN | POLLOUT : POLLIN), 0};
    if (::poll(&polled, 1, milliseconds_until(end)) <= 0 || !(polled.revents & (POLLIN | POLLHUP | POLLERR))) continue;
    const auto stream = meeting_.receive();
    while (auto frame = meeting_.next())
      if (static_cast<MeetingMessage>(frame->type) == MeetingMessage::refused)
        if (const auto why = Reason::parse(frame->body)) return {why->code, why->text};
    if (stream == FrameSocket::Stream::ended) break;
  }
  return time_out_error();
}

Error Joining::time_out_error() const {
  if (!have_table_)
    return {Code::remote_error,
            fmt::format("{} waited for all ranks to come to {}, and gave up after {}; {}", name_of(me_.member),
                        text_of(place_.addresses), seconds_of(options_.timeout), who_says_where())};
  std::vector<u32> missing;
  for (u32 peer = 0; peer < options_.ranks; ++peer)
    if (peer != options_.rank && !connected_[peer]) missing.push_back(peer);
  return {Code::remote_error, fmt::format("{} got no connection with {} within {}", name_of(me_.member),
                                          names_of_ranks(missing), seconds_of(options_.timeout))};
}

}  // namespace softib::coll
