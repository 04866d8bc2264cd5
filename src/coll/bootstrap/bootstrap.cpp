#include "coll/bootstrap/bootstrap.h"

#include <fmt/format.h>
#include <sys/random.h>

#include "base/error_text.h"
#include "coll/bootstrap/meeting.h"
#include "coll/bootstrap/mesh.h"

namespace softib::coll {

namespace {

Outcome<Key> random_key() {
  Key key{};
  if (::getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size()))
    return refuse(Code::system_error, "no random numbers: " + error_text());
  return key;
}

Outcome<void> listen_where_agreed(const MeetingPlace& place) {
  const Address& address = place.addresses.front();
  auto listener = listen_at(address);
  if (!listener)
    return refuse(
        Code::system_error,
        fmt::format("rank 0 can't listen at {} of SOFTIB_COMM_ID: {}{}", address.text(), error_text(listener.error()),
                    to_int(listener.error()) == EADDRNOTAVAIL ? "; it has to be an address of its host" : ""));
  std::vector<Fd> listeners;
  listeners.push_back(std::move(*listener));
  Meeting::serve_in_background(std::move(listeners), place.key);
  return {};
}

// At the first one in any case; the others are ways for those who don't reach that.
Outcome<std::vector<Fd>> listen_at_all(const std::vector<Interface>& interfaces, std::vector<Address>& addresses) {
  std::vector<Fd> listeners;
  for (const Interface& interface : interfaces) {
    auto listener = listen_at(interface.address.with_port(0));
    if (!listener && listeners.empty())
      return refuse(Code::system_error,
                    fmt::format("can't listen at {}: {}", interface.address.host(), error_text(listener.error())));
    if (!listener) continue;
    const auto address = local_address(listener->get());
    if (!address) return refuse(Code::system_error, "a listener without an address: " + error_text());
    addresses.push_back(*address);
    listeners.push_back(std::move(*listener));
  }
  return listeners;
}

}  // namespace

Outcome<UniqueId> UniqueId::make_apart() {
  const Environment environment = Environment::read();
  std::optional<Address> near;
  if (!environment.comm_id.empty())
    if (auto address = Address::resolve(environment.comm_id)) near = *address;
  auto chosen = choose_interfaces(environment, near, list_interfaces(), MeetingPlace::most_addresses);
  if (!chosen) return tl::unexpected(chosen.error());
  auto key = random_key();
  if (!key) return tl::unexpected(key.error());
  MeetingPlace place{MeetingPlace::Kind::made, {}, *key};
  auto listeners = listen_at_all(*chosen, place.addresses);
  if (!listeners) return tl::unexpected(listeners.error());
  raise_descriptor_limit();
  log::info(log::no_rank, Subsystem::bootstrap, "unique id: ranks meet at {} {}", chosen->front().name,
            text_of(place.addresses));
  Meeting::serve_in_background(std::move(*listeners), *key);
  return place.emit();
}

void Bootstrap::call_off(const UniqueId& id, BootstrapOptions options, const Error& why) {
  constexpr auto patience = std::chrono::seconds(10);  // it takes no time, but on a busy machine
  const auto place = MeetingPlace::parse(id);
  if (!place || place->kind != MeetingPlace::Kind::made) return;
  options.timeout = patience;
  options.obstacle = [&why] { return std::optional(why); };
  const Environment environment = Environment::read();
  static_cast<void>(Joining(*place, options, environment).run());
}

Outcome<std::unique_ptr<Bootstrap>> Bootstrap::connect(const UniqueId& id, const BootstrapOptions& options) {
  const auto place = MeetingPlace::parse(id);
  if (!place) return refuse(Code::invalid_argument, "these 128 bytes are no unique id");
  if (options.ranks == 0 || options.ranks > most_ranks || options.rank >= options.ranks)
    return refuse(Code::invalid_argument, fmt::format("rank {} of {} ranks", options.rank, options.ranks));
  const Environment environment = Environment::read();
  if (place->kind == MeetingPlace::Kind::agreed && options.rank == 0)
    if (auto done = listen_where_agreed(*place); !done) return tl::unexpected(done.error());
  auto joined = Joining(*place, options, environment).run();
  if (!joined) return tl::unexpected(joined.error());
  return Mesh::of(std::move(*joined), options.rank, options.timeout);
}

}  // namespace softib::coll
