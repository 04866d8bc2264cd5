#include "cli/status_query.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>

#include "ipc/client.h"

namespace softib::cli {

namespace {

tl::unexpected<fabric::Error> refuse(std::string text) { return tl::unexpected<fabric::Error>({std::move(text)}); }

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
  return fmt::format("the daemon does not answer: {}", std::generic_category().message(to_int(error)));
}

}  // namespace

fabric::Parsed<nlohmann::json> query_status(const std::string& dir) {
  auto client = ipc::Client::connect(dir);
  if (!client) return refuse(cause(client.error()));
  if (auto attached = attach_as_tool(**client); !attached) return refuse(cause(attached.error()));
  auto text = read_pieces(**client);
  if (!text) return refuse(cause(text.error()));
  nlohmann::json status = nlohmann::json::parse(*text, nullptr, false);
  if (!status.is_object()) return refuse("the daemon's answer cannot be read");
  return status;
}

}  // namespace softib::cli
