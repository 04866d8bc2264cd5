#include "cli/status_text.h"

#include <fmt/format.h>

#include <array>

#include "cli/link_text.h"
#include "cli/table.h"

namespace softib::cli {

namespace {

using nlohmann::json;

const json& member(const json& object, const char* name) {
  static const json none;
  if (!object.is_object()) return none;
  auto found = object.find(name);
  return found == object.end() ? none : *found;
}

std::string cell(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "-" : value.dump();
}

std::string lid_cell(const json& value) {
  if (!value.is_number_unsigned()) return cell(value);
  return value.get<u64>() ? fmt::format("0x{:x}", value.get<u64>()) : "-";
}

u64 number(const json& value) { return value.is_number_unsigned() ? value.get<u64>() : 0; }

std::string traffic_cell(const json& port, const char* bytes, const char* packets) {
  if (member(port, bytes).is_null()) return "-";
  return fmt::format("{} / {}", bytes_text(number(member(port, bytes))), number(member(port, packets)));
}

std::string headline(const json& status) {
  std::string text = fmt::format("fabric {} ({}), daemon {}", cell(member(status, "fabric")),
                                 cell(member(status, "link_layer")), cell(member(status, "daemon_pid")));
  if (const json& uptime = member(status, "uptime_s"); uptime.is_number_unsigned())
    text += fmt::format(", up {}", duration_text(uptime.get<u64>()));
  return text + "\n";
}

// The GID that tells most: the only one on InfiniBand, the one with the IPv4 address on Ethernet.
std::string gid_cell(const json& port) {
  const json& gids = member(port, "gids");
  if (gids.is_array() && !gids.empty()) return cell(gids.back());
  return cell(member(port, "gid"));
}

// Calls `visit(host, device, port)` for each port.
template <typename Visit>
void each_port(const json& status, Visit visit) {
  for (const json& host : member(status, "hosts"))
    for (const json& device : member(host, "devices"))
      for (const json& port : member(device, "ports")) visit(host, device, port);
}

std::string ports_table(const json& status) {
  bool traffic = false;
  each_port(status,
            [&](const json&, const json&, const json& port) { traffic |= !member(port, "tx_bytes").is_null(); });
  std::vector<std::string> head{"HOST", "DEVICE", "PORT", "STATE", "LID", "GID", "RATE"};
  if (traffic) head.insert(head.end(), {"SENT BYTES / PACKETS", "RECEIVED BYTES / PACKETS"});
  Table table(head);
  each_port(status, [&](const json& host, const json& device, const json& port) {
    std::vector<std::string> row{cell(member(host, "name")),    cell(member(device, "name")),
                                 cell(member(port, "number")),  cell(member(port, "state")),
                                 lid_cell(member(port, "lid")), gid_cell(port),
                                 cell(member(port, "rate"))};
    if (traffic) {
      row.push_back(traffic_cell(port, "tx_bytes", "tx_packets"));
      row.push_back(traffic_cell(port, "rx_bytes", "rx_packets"));
    }
    table.add(std::move(row));
  });
  return table.empty() ? "no HCAs\n" : table.text();
}

constexpr std::array<std::pair<const char*, const char*>, 8> object_columns{{{"context", "CONTEXTS"},
                                                                             {"pd", "PDS"},
                                                                             {"mr", "MRS"},
                                                                             {"mw", "MWS"},
                                                                             {"cq", "CQS"},
                                                                             {"qp", "QPS"},
                                                                             {"srq", "SRQS"},
                                                                             {"ah", "AHS"}}};

std::string processes_table(const json& status) {
  std::vector<std::string> head{"PID", "PROGRAM", "HOST"};
  for (const auto& [key, title] : object_columns) head.emplace_back(title);
  head.emplace_back("SHARED MEMORY");
  Table table(head);
  for (const json& process : member(status, "processes")) {
    std::vector<std::string> row{cell(member(process, "pid")), cell(member(process, "program")),
                                 cell(member(process, "host"))};
    for (const auto& [key, title] : object_columns) row.push_back(cell(member(member(process, "objects"), key)));
    row.push_back(bytes_text(number(member(process, "memory_bytes"))));
    table.add(row);
  }
  return table.empty() ? "no processes\n" : table.text();
}

std::string managers_table(const json& status) {
  Table table({"SUBNET MANAGER", "AT", "STATE", "SUBNET"});
  for (const json& manager : member(status, "subnet_managers")) {
    std::string kind = cell(member(manager, "kind"));
    if (!member(manager, "pid").is_null()) kind += fmt::format(", process {}", cell(member(manager, "pid")));
    const json& up = member(manager, "subnet_up");
    table.add({kind, cell(member(manager, "place")), cell(member(manager, "state")),
               up.is_boolean() && up.get<bool>() ? "up" : "not up"});
  }
  if (!table.empty()) return table.text() + "\n";
  return cell(member(status, "link_layer")) == "InfiniBand" ? "no subnet manager runs\n\n" : "";
}

std::string aggregation_table(const json& status) {
  Table table({"AGGREGATION", "HOST", "NODES", "STATE"});
  for (const json& program : member(status, "aggregation")) {
    std::string name = "softib-aggregation";
    if (!member(program, "pid").is_null()) name += fmt::format(", process {}", cell(member(program, "pid")));
    const bool runs = member(program, "running").is_boolean() && member(program, "running").get<bool>();
    table.add({name, cell(member(program, "host")),
               fmt::format("{} of {}", runs ? cell(member(program, "nodes_in")) : "0", cell(member(program, "nodes"))),
               cell(member(program, "state")) + (runs ? "" : "; softib aggregation restart")});
  }
  return table.empty() ? "" : table.text() + "\n";
}

// How hosts are places; softib up has told the remedy where they can't have namespaces.
std::string hosts_line(const json& status) {
  const json& places = member(status, "namespaces");
  const std::string kind = cell(member(places, "kind"));
  const std::string note = member(places, "note").is_string() ? cell(member(places, "note")) : "";
  const std::string why = note.empty() ? "" : fmt::format(" ({})", note);
  if (kind == "plain") return fmt::format("hosts: without namespaces{}\n\n", why);
  if (kind == "lost") return fmt::format("hosts: their namespaces are lost, softib-hosts died{}\n\n", why);
  if (kind != "namespaces") return "";
  const std::string link = cell(member(places, "link"));
  return fmt::format("hosts: in namespaces{}{}\n\n", link.empty() ? "" : ", reached from here by " + link, why);
}

std::string memory_line(const json& status) {
  const json& memory = member(status, "memory");
  if (!memory.is_object()) return {};
  return fmt::format("memory: {} in the segment, {} in rings\n", bytes_text(number(member(memory, "segment_bytes"))),
                     bytes_text(number(member(memory, "arena_bytes"))));
}

}  // namespace

std::string bytes_text(u64 bytes) {
  constexpr std::array<const char*, 6> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::string duration_text(u64 seconds) {
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 86400) return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{} d {} h", seconds / 86400, seconds / 3600 % 24);
}

std::string status_text(const json& status) {
  return headline(status) + "\n" + ports_table(status) + "\n" + faults_text(member(status, "faults")) +
         managers_table(status) + aggregation_table(status) + hosts_line(status) + processes_table(status) + "\n" +
         memory_line(status);
}

}  // namespace softib::cli
