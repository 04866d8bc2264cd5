#include "cli/status_query.h"

#include "cli/daemon_call.h"
#include "fabric/error.h"

namespace softib::cli {

namespace {

using fabric::refuse;

Result<std::string> read_pieces(ipc::Client& client, ipc::Topic topic) {
  std::string text;
  while (true) {
    auto piece = client.call<ipc::Status>(0, {text.size(), topic, 0});
    if (!piece) return fail(piece.error());
    if (piece->length > ipc::status_piece) return fail(EPROTO);
    text.append(piece->text, piece->length);
    if (text.size() >= piece->total) return text;
    if (piece->length == 0) return fail(EPROTO);
  }
}

fabric::Parsed<nlohmann::json> query(const std::string& dir, ipc::Topic topic, std::chrono::seconds limit) {
  auto client = connect_as_tool(dir, limit);
  if (!client) return refuse(client.error().text);
  auto text = read_pieces(**client, topic);
  if (!text) return refuse(cause_of(text.error()));
  nlohmann::json answer = nlohmann::json::parse(*text, nullptr, false);
  if (topic == ipc::Topic::all ? !answer.is_object() : !answer.is_array())
    return refuse("the daemon's answer cannot be read");
  return answer;
}

}  // namespace

fabric::Parsed<nlohmann::json> query_status(const std::string& dir, std::chrono::seconds limit) {
  return query(dir, ipc::Topic::all, limit);
}

fabric::Parsed<nlohmann::json> query_links(const std::string& dir) {
  return query(dir, ipc::Topic::links, std::chrono::seconds(10));
}

Result<ipc::PlaceKind> ask_to_prepare(const std::string& dir, std::string_view host, std::chrono::seconds limit) {
  auto client = connect(dir, limit);
  if (!client) return fail(client.error());
  ipc::PrepareHost::Request request{};
  host.copy(request.host, sizeof request.host - 1);
  auto done = (*client)->call<ipc::PrepareHost>(0, request);
  if (!done) return fail(done.error());
  return done->place;
}

}  // namespace softib::cli
