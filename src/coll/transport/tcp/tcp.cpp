#include "coll/transport/tcp/tcp.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>

#include "base/error_text.h"
#include "coll/log.h"
#include "coll/net/gate.h"
#include "coll/transport/tcp/transport.h"

namespace softib::coll::tcp {

namespace {

constexpr auto time_to_connect = std::chrono::seconds(60);
constexpr auto time_between_looks = std::chrono::milliseconds(100);  // at the bootstrap's news
constexpr u64 most_hello_bytes = 64;
constexpr u16 hello_type = 1;
using Secret = std::array<std::byte, 16>;

// Where a rank listens, and what those who come have to know.
struct Door {
  Address address;
  Secret secret{};

  [[nodiscard]] Bytes emit() const {
    Bytes bytes;
    ByteWriter to(bytes);
    address.put(to);
    to.bytes(secret);
    return bytes;
  }
  [[nodiscard]] static std::optional<Door> parse(std::span<const std::byte> bytes) {
    ByteReader from(bytes);
    const auto address = Address::get(from);
    Door door{address.value_or(Address()), from.array<std::tuple_size_v<Secret>>()};
    if (!address || !from.complete()) return std::nullopt;
    return door;
  }
};

// Connects one rank with its peers: to those before it, and those after it come.
class Setup {
 public:
  Setup(Bootstrap& bootstrap, std::span<const u32> peers) : bootstrap_(bootstrap) {
    for (u32 rank = 0; rank < bootstrap.members().size(); ++rank) links_.emplace_back(Fd(), most_hello_bytes);
    state_.resize(links_.size(), Link::none);
    for (u32 peer : peers)
      if (peer < links_.size() && peer != bootstrap.rank()) state_[peer] = Link::missing;
  }

  [[nodiscard]] Outcome<std::vector<std::unique_ptr<Connection>>> run();

 private:
  enum class Link : u8 { none, missing, there };

  [[nodiscard]] Outcome<Door> listen();
  [[nodiscard]] Outcome<void> learn_doors(const Outcome<Door>& mine);
  [[nodiscard]] Outcome<void> connect_all();
  [[nodiscard]] Outcome<void> begin(u32 peer);
  [[nodiscard]] Outcome<void> look_at(u32 peer);
  [[nodiscard]] Outcome<void> wait();
  void admit(FrameSocket& socket, const Frame& first);
  [[nodiscard]] Outcome<void> agree(const Outcome<void>& mine);
  [[nodiscard]] bool any_missing() const { return std::ranges::find(state_, Link::missing) != state_.end(); }
  [[nodiscard]] std::string who(u32 peer) const {
    return fmt::format("{} at {}", name_of(bootstrap_.members()[peer]), doors_[peer].address.text());
  }

  Bootstrap& bootstrap_;
  std::vector<FrameSocket> links_;  // by rank
  std::vector<Link> state_;
  std::vector<Door> doors_;
  Gate gate_;
};

Outcome<std::vector<std::unique_ptr<Connection>>> Setup::run() {
  if (auto done = learn_doors(listen()); !done) return tl::unexpected(done.error());
  if (auto done = agree(connect_all()); !done) return tl::unexpected(done.error());
  std::vector<std::unique_ptr<Connection>> connections(links_.size());
  for (u32 peer = 0; peer < links_.size(); ++peer)
    if (links_[peer].open())
      connections[peer] = std::make_unique<Connection>(links_[peer].take_fd(), bootstrap_.members()[peer]);
  return connections;
}

Outcome<Door> Setup::listen() {
  raise_descriptor_limit();
  const std::string& host = bootstrap_.members()[bootstrap_.rank()].address;
  const auto address = Address::numeric(host);
  if (!address) return coll::refuse(Code::system_error, fmt::format("'{}' is no address to listen at", host));
  auto listener = listen_at(*address);
  if (!listener)
    return coll::refuse(Code::system_error, fmt::format("can't listen at {}: {}", host, error_text(listener.error())));
  Door door{local_address(listener->get()).value_or(*address), {}};
  if (::getrandom(door.secret.data(), door.secret.size(), 0) != static_cast<ssize_t>(door.secret.size()))
    return coll::refuse(Code::system_error, "no random numbers: " + error_text());
  gate_ = Gate(std::move(*listener), most_hello_bytes, std::max<std::size_t>(256, 2 * links_.size()));
  return door;
}

// An empty door: that rank couldn't open one.
Outcome<void> Setup::learn_doors(const Outcome<Door>& mine) {
  const auto all = bootstrap_.all_gather(mine ? mine->emit() : Bytes());
  if (!mine) return tl::unexpected(mine.error());
  if (!all) return tl::unexpected(all.error());
  for (u32 rank = 0; rank < all->size(); ++rank) {
    auto door = Door::parse((*all)[rank]);
    if (!door) return coll::refuse(Code::system_error, name_of(bootstrap_.members()[rank]) + " has no address for TCP");
    doors_.push_back(*door);
  }
  return {};
}

Outcome<void> Setup::connect_all() {
  const Clock::time_point end = Clock::now() + time_to_connect;
  for (u32 peer = 0; peer < bootstrap_.rank(); ++peer)
    if (state_[peer] == Link::missing)
      if (auto done = begin(peer); !done) return done;
  while (any_missing()) {
    if (Clock::now() >= end)
      return coll::refuse(
          Code::remote_error,
          "no TCP connection with " + who(static_cast<u32>(std::ranges::find(state_, Link::missing) - state_.begin())));
    if (auto news = bootstrap_.news(); news && news->kind != Bootstrap::News::Kind::blames)
      return coll::refuse(Code::remote_error, fmt::format("{} ended while ranks were connected", who(news->rank)));
    if (auto done = wait(); !done) return done;
  }
  return {};
}

Outcome<void> Setup::begin(u32 peer) {
  auto fd = begin_connect(doors_[peer].address);
  if (!fd)
    return coll::refuse(Code::system_error, fmt::format("can't reach {}: {}", who(peer), error_text(fd.error())));
  links_[peer] = FrameSocket(std::move(*fd), most_hello_bytes);
  Bytes hello;
  ByteWriter to(hello);
  to.bytes(doors_[peer].secret);
  to.number(bootstrap_.rank());
  links_[peer].post(hello_type, hello);
  return {};
}

Outcome<void> Setup::look_at(u32 peer) {
  auto result = connect_result(links_[peer].fd());
  if (result && !links_[peer].flush()) result = fail(ECONNRESET);
  if (!result)
    return coll::refuse(Code::remote_error, fmt::format("can't reach {}: {}", who(peer), error_text(result.error())));
  if (!links_[peer].sending()) state_[peer] = Link::there;
  return {};
}

Outcome<void> Setup::wait() {
  std::vector<pollfd> polled;
  std::vector<u32> under_way;
  for (u32 peer = 0; peer < bootstrap_.rank(); ++peer) {
    if (state_[peer] != Link::missing) continue;
    under_way.push_back(peer);
    polled.push_back({links_[peer].fd(), POLLOUT, 0});
  }
  gate_.add_to(polled);
  const auto timeout = static_cast<int>(std::chrono::milliseconds(time_between_looks).count());
  if (::poll(polled.data(), polled.size(), timeout) < 0) return {};  // EINTR
  for (std::size_t i = 0; i < under_way.size(); ++i)
    if (polled[i].revents != 0)
      if (auto done = look_at(under_way[i]); !done) return done;
  gate_.serve(std::span(polled).subspan(under_way.size()),
              [this](FrameSocket& socket, const Frame& first) { admit(socket, first); });
  return {};
}

void Setup::admit(FrameSocket& socket, const Frame& first) {
  ByteReader from(first.body);
  const auto secret = from.array<std::tuple_size_v<Secret>>();
  const u32 peer = from.number<u32>();
  if (first.type != hello_type || !from.complete() || secret != doors_[bootstrap_.rank()].secret) return;
  if (peer <= bootstrap_.rank() || peer >= links_.size() || state_[peer] != Link::missing) return;
  links_[peer] = std::move(socket);
  state_[peer] = Link::there;
}

// Nobody goes on before all are connected, and all hear of a failure.
Outcome<void> Setup::agree(const Outcome<void>& mine) {
  const std::string text = mine ? "" : mine.error().text;
  const auto all = bootstrap_.all_gather(std::as_bytes(std::span(text)));
  if (!mine) return tl::unexpected(mine.error());
  if (!all) return tl::unexpected(all.error());
  for (u32 rank = 0; rank < all->size(); ++rank)
    if (const Bytes& words = (*all)[rank]; !words.empty())
      return coll::refuse(Code::remote_error,
                          fmt::format("{}: {}", name_of(bootstrap_.members()[rank]),
                                      std::string_view(reinterpret_cast<const char*>(words.data()), words.size())));
  return {};
}

}  // namespace

Outcome<std::unique_ptr<Transport>> create(Bootstrap& bootstrap, const Environment& /*environment*/,
                                           std::span<const u32> peers) {
  auto connections = Setup(bootstrap, peers).run();
  if (!connections) return tl::unexpected(connections.error());
  auto transport = std::make_unique<TcpTransport>(std::move(*connections));
  if (auto done = transport->open_descriptors(); !done) return tl::unexpected(done.error());
  log::info(static_cast<i32>(bootstrap.rank()), Subsystem::net, "TCP to {} ranks from {}", peers.size(),
            bootstrap.members()[bootstrap.rank()].address);
  return transport;
}

}  // namespace softib::coll::tcp
