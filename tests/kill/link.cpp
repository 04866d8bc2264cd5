#include "link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace softib::kill {
namespace {

constexpr char finished_byte = 'F';

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    std::fprintf(stderr, "socket path too long: %s\n", path.c_str());
    std::exit(2);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

bool send_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    ssize_t sent = ::send(fd, data, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, char* data, size_t size) {
  while (size > 0) {
    ssize_t got = ::recv(fd, data, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

Fd Link::listen(const std::string& path) {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = address_of(path);
  ::unlink(path.c_str());
  if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), 1) != 0) {
    std::perror("listen");
    std::exit(2);
  }
  return socket;
}

Link Link::accept(const Fd& listener) { return Link(Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))); }

Link Link::connect(const std::string& path, int seconds) {
  sockaddr_un address = address_of(path);
  for (int attempt = 0; attempt < seconds * 100; ++attempt) {
    Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
      return Link(std::move(socket));
    }
    if (errno == ECONNREFUSED) break;  // the listener was there and has died
    timespec pause{0, 10'000'000};
    nanosleep(&pause, nullptr);
  }
  return Link(Fd());
}

bool Link::exchange(const void* mine, void* theirs, size_t size) const {
  return send_all(socket_.get(), static_cast<const char*>(mine), size) &&
         receive_all(socket_.get(), static_cast<char*>(theirs), size);
}

bool Link::meet() const {
  char mine = 'M';
  char theirs = 0;
  return exchange(&mine, &theirs, 1) && theirs == 'M';
}

bool Link::say_finished() const { return send_all(socket_.get(), &finished_byte, 1); }

LinkNews Link::wait_news(int milliseconds) const {
  pollfd entry{socket_.get(), POLLIN, 0};
  if (::poll(&entry, 1, milliseconds) <= 0) return LinkNews::quiet;
  char byte = 0;
  return receive_all(socket_.get(), &byte, 1) ? LinkNews::finished : LinkNews::peer_gone;
}

}  // namespace softib::kill
