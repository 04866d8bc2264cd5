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
  auto listener = listen_at(place.address);
  if (!listener)
    return refuse(
        Code::system_error,
        fmt::format("rank 0 can't listen at {} of SOFTIB_COMM_ID: {}{}", place.address.text(),
                    error_text(listener.error()),
                    to_int(listener.error()) == EADDRNOTAVAIL ? "; it has to be an address of its host" : ""));
  Meeting::serve_in_background(std::move(*listener), place.key);
  return {};
}

}  // namespace

Outcome<UniqueId> UniqueId::make_apart() {
  const Environment environment = Environment::read();
  std::optional<Address> near;
  if (!environment.comm_id.empty())
    if (auto address = Address::resolve(environment.comm_id)) near = *address;
  auto chosen = choose_interface(environment, near, list_interfaces());
  if (!chosen) return tl::unexpected(chosen.error());
  auto key = random_key();
  if (!key) return tl::unexpected(key.error());
  auto listener = listen_at(chosen->address.with_port(0));
  if (!listener)
    return refuse(Code::system_error,
                  fmt::format("can't listen at {}: {}", chosen->address.host(), error_text(listener.error())));
  const auto address = local_address(listener->get());
  if (!address) return refuse(Code::system_error, "a listener without an address: " + error_text());
  raise_descriptor_limit();
  log::info(log::no_rank, Subsystem::bootstrap, "unique id: ranks meet at {} {}", chosen->name, address->text());
  Meeting::serve_in_background(std::move(*listener), *key);
  return MeetingPlace{MeetingPlace::Kind::made, *address, *key}.emit();
}

void Bootstrap::call_off(const UniqueId& id, BootstrapOptions options, const Error& why) {
  constexpr auto patience = std::chrono::seconds(1);
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
