#include "cli/daemon_call.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/error_text.h"

namespace softib::cli {

namespace {

// Afterwards a call to a daemon that was stopped, or is lost in a loop, fails with EIO.
void limit_waiting(int socket, std::chrono::seconds limit) {
  timeval time{limit.count(), 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

}  // namespace

std::string cause_of(Errno error) {
  if (to_int(error) == EPROTO || to_int(error) == ENOSYS)
    return "the daemon is of another version than this command; end it with 'softib down' and start it anew";
  if (to_int(error) == EIO) return "the daemon does not answer";
  return fmt::format("cannot ask the daemon: {}", error_text(error));
}

Result<std::unique_ptr<ipc::Client>> connect(const std::string& dir, std::chrono::seconds limit) {
  auto client = ipc::Client::connect(dir);
  if (client) limit_waiting((*client)->fd(), limit);
  return client;
}

fabric::Parsed<std::unique_ptr<ipc::Client>> connect_as_tool(const std::string& dir, std::chrono::seconds limit) {
  auto client = connect(dir, limit);
  if (!client) return fabric::refuse(cause_of(client.error()));
  if (auto attached = ipc::attach_as_tool(**client, "softib"); !attached)
    return fabric::refuse(cause_of(attached.error()));
  return std::move(*client);
}

}  // namespace softib::cli
