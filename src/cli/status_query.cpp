#include "cli/status_query.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstring>

#include "ipc/client.h"

namespace softib::cli {

namespace {

tl::unexpected<fabric::Error> refuse(std::string text) { return tl::unexpected<fabric::Error>({std::move(text)}); }

// Afterwards a call to a daemon that was stopped, or is lost in a loop, fails with EIO.
void limit_waiting(int socket, std::chrono::seconds limit) {
  timeval time{limit.count(), 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

Result<void> attach_as_tool(ipc::Client& client) {
  ipc::Attach::Request request{};
  request.version = ipc::interface_version;
  request.size_of_qp = sizeof(ipc::Qp);
  request.is_tool = 1;
  request.local_pid = ::getpid();
  std::strncpy(request.program, "softib", sizeof request.program - 1);
  auto reply = client.call<ipc::Attach>(0, request);
  if (!reply) return fail(reply.error());
  return {};
}

Result<std::string> read_pieces(ipc::Client& client) {
  std::string text;
  while (true) {
    auto piece = client.call<ipc::Status>(0, {text.size()});
    if (!piece) return fail(piece.error());
    if (piece->length > ipc::status_piece) return fail(EPROTO);
    text.append(piece->text, piece->length);
    if (text.size() >= piece->total) return text;
    if (piece->length == 0) return fail(EPROTO);
  }
}

std::string cause(Errno error) {
  if (to_int(error) == EPROTO)
    return "the daemon is of another version than this command; end it with 'softib down' and start it anew";
  if (to_int(error) == EIO) return "the daemon does not answer";
  return fmt::format("cannot ask the daemon: {}", std::generic_category().message(to_int(error)));
}

}  // namespace

fabric::Parsed<nlohmann::json> query_status(const std::string& dir, std::chrono::seconds limit) {
  auto client = ipc::Client::connect(dir);
  if (!client) return refuse(cause(client.error()));
  limit_waiting((*client)->fd(), limit);
  if (auto attached = attach_as_tool(**client); !attached) return refuse(cause(attached.error()));
  auto text = read_pieces(**client);
  if (!text) return refuse(cause(text.error()));
  nlohmann::json status = nlohmann::json::parse(*text, nullptr, false);
  if (!status.is_object()) return refuse("the daemon's answer cannot be read");
  return status;
}

}  // namespace softib::cli
