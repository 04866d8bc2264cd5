// The two sides of the killing test find each other over a Unix socket, off the fabric.
#pragma once

#include <cstddef>
#include <string>

#include "base/fd.h"

namespace softib::kill {

enum class LinkNews { quiet, finished, peer_gone };

// A connected stream socket. Every call gives false once the peer has gone.
class Link {
 public:
  static Fd listen(const std::string& path);
  static Link accept(const Fd& listener);
  // Tries until the listener is there, at most `seconds`; gives up at once when it has died.
  static Link connect(const std::string& path, int seconds);

  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(socket_); }

  // Sends `size` bytes of `mine` and receives as many into `theirs`.
  [[nodiscard]] bool exchange(const void* mine, void* theirs, size_t size) const;
  // Both sides have come here.
  [[nodiscard]] bool meet() const;

  // Tells the peer that this side has finished, and what the peer said since the last call.
  [[nodiscard]] bool say_finished() const;
  [[nodiscard]] LinkNews wait_news(int milliseconds) const;

 private:
  explicit Link(Fd socket) : socket_(std::move(socket)) {}
  Fd socket_;
};

}  // namespace softib::kill
