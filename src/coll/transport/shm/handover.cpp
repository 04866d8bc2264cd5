#include "coll/transport/shm/handover.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error_text.h"

namespace softib::coll::shm {

namespace {

using HandoverClock = std::chrono::steady_clock;
constexpr auto handover_patience = std::chrono::seconds(60);

// What each rank tells all others through the bootstrap.
struct Introduction {
  u64 listens = 0;  // 0: it couldn't
  Key name{};       // of its socket; anybody on the machine can see that
  Key key{};        // nobody else can see this one
  u64 key_address = 0;
  u64 network = 0;  // its network namespace, in which its socket can be found
};

struct Hello {
  Key key{};  // the listener's
  u32 rank = 0;
};

struct Present {
  u32 channel = 0;
};

u64 network_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/net", &status) == 0 ? status.st_ino : 0;
}

socklen_t abstract_address(const Key& name, sockaddr_un& address) {
  const std::string text = fmt::format("softib-coll-{:016x}{:016x}", name[0], name[1]);
  address = {};
  address.sun_family = AF_UNIX;
  text.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // the first byte stays 0: abstract
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
}

Fd listen_at(const Key& name) {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  const socklen_t length = abstract_address(name, address);
  if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length) < 0) return {};
  return ::listen(socket.get(), SOMAXCONN) == 0 ? std::move(socket) : Fd{};
}

template <typename Value>
bool send_value(int socket, const Value& value, std::span<const int> descriptors) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> room{};
  iovec piece{const_cast<Value*>(&value), sizeof value};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = room.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof value);
}

// False if something else came, or nothing yet (then with errno EAGAIN).
template <typename Value>
bool receive_value(int socket, Value& value, std::vector<Fd>* descriptors = nullptr) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> room{};
  iovec piece{&value, sizeof value};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  errno = 0;
  const ssize_t came = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (came < 0) return false;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      Fd owned(fd);
      if (descriptors) descriptors->push_back(std::move(owned));
    }
  }
  return came == static_cast<ssize_t>(sizeof value);
}

// The process at the other end, as this process' pid namespace names it.
i32 process_behind(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 ? credentials.pid : 0;
}

class Handover {
 public:
  Handover(Bootstrap& bootstrap, std::span<const u32> peers, std::span<const Gift> gifts)
      : bootstrap_(bootstrap), peers_(peers), gifts_(gifts), received_(peers.size()), given_(peers.size()) {}

  Outcome<std::vector<Received>> run(const Key& key, std::string trouble) {
    auto introduced = introduce(key, trouble.empty());
    if (!introduced) return tl::unexpected(introduced.error());
    if (trouble.empty()) trouble = std::move(*introduced);
    if (trouble.empty()) trouble = exchange();
    // All succeed, or none does.
    const auto all = bootstrap_.all_gather(std::as_bytes(std::span(trouble)));
    if (!all) return tl::unexpected(all.error());
    for (const Bytes& one : *all)
      if (!one.empty())
        return refuse(Code::system_error, std::string(reinterpret_cast<const char*>(one.data()), one.size()));
    return std::move(received_);
  }

 private:
  // The outcome is what is wrong, for people, on one rank; empty if nothing is.
  Outcome<std::string> introduce(const Key& key, bool ready) {
    Key name{};
    if (ready && random_key(name)) listener_ = listen_at(name);
    mine_ = {listener_ ? 1u : 0u, name, key, reinterpret_cast<u64>(&key), network_namespace()};
    const auto all = bootstrap_.all_gather(std::as_bytes(std::span(&mine_, 1)));
    if (!all) return tl::unexpected(all.error());
    introductions_.resize(all->size());
    for (u32 rank = 0; rank < all->size(); ++rank) {
      if ((*all)[rank].size() != sizeof(Introduction))
        return refuse(Code::invalid_usage, fmt::format("{} runs another version", who(rank)));
      std::memcpy(&introductions_[rank], (*all)[rank].data(), sizeof(Introduction));
    }
    for (const u32 peer : peers_) {
      if (introductions_[peer].listens == 0)
        return fmt::format("{} has no memory to share, or no Unix socket", who(peer));
      if (introductions_[peer].network != mine_.network)
        return fmt::format("{} is on this host, but in another network namespace", who(peer));
    }
    return std::string();
  }

  // Everyone connects before anyone waits, so all connections are there when they are waited for.
  std::string exchange() {
    for (u32 index = 0; index < peers_.size(); ++index)
      if (!connect(index)) return fmt::format("no connection to {}: {}", who(peers_[index]), error_text());
    const auto deadline = HandoverClock::now() + handover_patience;
    while (std::find(given_.begin(), given_.end(), false) != given_.end() || waiting_ > 0) {
      if (HandoverClock::now() > deadline) return "ranks of this host did not connect in time";
      const auto news = bootstrap_.news();
      if (news && (news->kind == Bootstrap::News::Kind::ended || news->kind == Bootstrap::News::Kind::aborted))
        return fmt::format("{} is gone", who(news->rank));
      wait_a_while();
      if (!accept_all() || !take_all()) return "a rank of this host gave something else than its memory";
    }
    return {};
  }

  bool connect(u32 index) {
    const Introduction& peer = introductions_[peers_[index]];
    Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    const socklen_t length = abstract_address(peer.name, address);
    if (!socket || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) < 0) return false;
    if (!send_value(socket.get(), Hello{peer.key, bootstrap_.rank()}, {})) return false;
    received_[index].process = process_behind(socket.get());
    received_[index].key = peer.key;
    received_[index].key_address = peer.key_address;
    connections_.push_back(std::move(socket));
    ++waiting_;
    return true;
  }

  void wait_a_while() {
    std::vector<pollfd> polled{{listener_.get(), POLLIN, 0}};
    for (const Fd& connection : connections_)
      if (connection) polled.push_back({connection.get(), POLLIN, 0});
    for (const Fd& guest : guests_) polled.push_back({guest.get(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), 100);
  }

  bool accept_all() {
    for (;;) {
      Fd guest(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!guest) break;
      guests_.push_back(std::move(guest));
    }
    bool good = true;
    std::erase_if(guests_, [this, &good](const Fd& guest) {
      Hello hello;
      if (!receive_value(guest.get(), hello)) return errno != EAGAIN;
      if (hello.key == mine_.key) good = good && give(guest.get(), hello.rank);
      return true;
    });
    return good;
  }

  bool give(int socket, u32 rank) {
    const auto found = std::find(peers_.begin(), peers_.end(), rank);
    if (found == peers_.end()) return false;
    const auto index = static_cast<std::size_t>(found - peers_.begin());
    given_[index] = true;
    const Gift& gift = gifts_[index];
    const std::array<int, 2> descriptors{gift.channels, gift.arena};
    return send_value(socket, Present{gift.channel}, descriptors);
  }

  bool take_all() {
    for (u32 index = 0; index < peers_.size(); ++index) {
      Fd& connection = connections_[index];
      pollfd ready{connection.get(), POLLIN, 0};
      if (!connection || ::poll(&ready, 1, 0) <= 0) continue;
      Present present;
      std::vector<Fd> descriptors;
      if (!receive_value(connection.get(), present, &descriptors) || descriptors.size() != 2) return false;
      received_[index].channels = std::move(descriptors[0]);
      received_[index].arena = std::move(descriptors[1]);
      received_[index].channel = present.channel;
      connection.reset();
      --waiting_;
    }
    return true;
  }

  [[nodiscard]] std::string who(u32 rank) const { return name_of(bootstrap_.members()[rank]); }

  Bootstrap& bootstrap_;
  std::span<const u32> peers_;
  std::span<const Gift> gifts_;
  std::vector<Received> received_;
  std::vector<bool> given_;
  Introduction mine_{};
  std::vector<Introduction> introductions_;
  Fd listener_;
  std::vector<Fd> connections_;
  std::vector<Fd> guests_;  // whoever connected, until it has said who it is
  u32 waiting_ = 0;
};

}  // namespace

Outcome<std::vector<Received>> hand_over(Bootstrap& bootstrap, std::span<const u32> peers, std::span<const Gift> gifts,
                                         const Key& key, std::string trouble) {
  return Handover(bootstrap, peers, gifts).run(key, std::move(trouble));
}

bool random_key(Key& key) { return ::getrandom(key.data(), sizeof key, 0) == static_cast<ssize_t>(sizeof key); }

}  // namespace softib::coll::shm
