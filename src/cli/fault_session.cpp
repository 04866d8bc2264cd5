#include "cli/fault_session.h"

#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/daemon_call.h"
#include "cli/session_folder.h"
#include "fabric/error.h"

namespace softib::cli {

namespace {

using fabric::refuse;

constexpr std::chrono::seconds call_limit(30);

std::string programs(u32 count) { return count == 1 ? "1 program" : fmt::format("{} programs", count); }

}  // namespace

fabric::Parsed<FaultSession> FaultSession::open(std::string_view fabric_name) {
  auto dir = running_folder(fabric_name);
  if (!dir) return refuse(dir.error().text);
  auto fabric = fabric::load(*dir + "/fabric.yaml");
  if (!fabric) return refuse(fabric.error().text);
  auto client = connect_as_tool(*dir, call_limit);
  if (!client) return refuse(client.error().text);
  return FaultSession(std::make_unique<fabric::Fabric>(*std::move(fabric)), std::move(*client));
}

fabric::Parsed<ipc::Fault::Reply> FaultSession::apply(const fabric::FaultRequest& fault) {
  auto reply = client_->call<ipc::Fault>(0, fault);
  if (!reply) return refuse(reason(fault, reply.error()));
  return *reply;
}

std::string FaultSession::reason(const fabric::FaultRequest& fault, Errno error) const {
  const std::string words = fabric::fault_words(*fabric_, fault);
  switch (to_int(error)) {
    case ENXIO:
      return words + ": no cable is plugged in there";
    case ENOENT:
      if (fault.kind == ipc::FaultKind::stop_aggregation || fault.kind == ipc::FaultKind::start_aggregation)
        return words + ": the fabric file asks for no aggregation nodes (aggregation: true)";
      return words + ": the fabric file has no subnet manager (sm: none); programs that users run are theirs";
    case EHOSTDOWN:
      return words + ": its host is off";
    case EOPNOTSUPP:
      return fmt::format("{}: fabric '{}' is Ethernet; faults are for InfiniBand", words, fabric_->name);
    case EINVAL:
      if (fault.kind == ipc::FaultKind::swap) return words + ": these are the two ends of one cable";
      return words + ": the daemon refuses it";
    default:
      return fmt::format("{}: {}", words, cause_of(error));
  }
}

std::string outcome_text(const fabric::Fabric& fabric, const fabric::FaultRequest& fault,
                         const ipc::Fault::Reply& reply) {
  std::string text = fabric::fault_words(fabric, fault);
  if (!reply.changed) text += "; it was so already";
  if (reply.disabled) text += "; it stays down: a port is disabled, which ibportstate or 'reset' here ends";
  if (reply.killed) text += fmt::format("; {} killed", programs(reply.killed));
  if (reply.spared) text += fmt::format("; {} cannot be killed from here", programs(reply.spared));
  return text;
}

int do_fault(const std::string& fabric_name, const std::vector<std::string>& words) {
  auto session = FaultSession::open(fabric_name);
  if (!session) return complain(session.error().text);
  auto fault = fabric::parse_fault(session->fabric(), words);
  if (!fault) return complain(fmt::format("{}: {}", words.front(), fault.error().text), usage_error);
  auto reply = session->apply(*fault);
  if (!reply) return complain(reply.error().text);
  fmt::print("{}\n", outcome_text(session->fabric(), *fault, *reply));
  return 0;
}

}  // namespace softib::cli
