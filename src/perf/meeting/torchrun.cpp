// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT: who sets them means that rank 0 listens there.
#include <cstdlib>
#include <string>

#include "perf/meeting/meeting.h"

namespace softib::perf {

namespace {

// torchrun itself listens there then.
bool is_taken_by_agent() {
  const char* text = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  return text != nullptr && std::string_view(text) == "True";
}

}  // namespace

Joined join_by_torchrun() {
  const char *address = std::getenv("MASTER_ADDR"), *port = std::getenv("MASTER_PORT");
  const auto position = position_by_torchrun();
  if (address == nullptr || port == nullptr || !position || is_taken_by_agent()) return std::nullopt;
  const std::string host(address);
  const bool is_ipv6 = host.find(':') != host.npos;
  ::setenv("SOFTIB_COMM_ID", ((is_ipv6 ? "[" + host + "]" : host) + ":" + port).c_str(), 1);
  auto id = coll::UniqueId::make();
  if (!id) return tl::unexpected(id.error());
  return Meeting{position->process, position->processes, *id};
}

}  // namespace softib::perf
