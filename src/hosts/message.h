// Records and lines of text through the keeper's socket pairs, one message each.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>

namespace softib::hosts {

inline constexpr size_t longest_text = 4096;

// Nothing: the other side has gone.
inline std::optional<std::string> receive_text(int socket) {
  char buffer[longest_text];
  ssize_t got;
  do got = ::recv(socket, buffer, sizeof buffer, 0);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return std::nullopt;
  return std::string(buffer, static_cast<size_t>(got));
}

// False: the other side has gone.
inline bool send_text(int socket, std::string_view text) {
  ssize_t sent;
  do sent = ::send(socket, text.data(), std::min(text.size(), longest_text), MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent > 0;
}

}  // namespace softib::hosts
