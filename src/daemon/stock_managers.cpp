#include "daemon/stock_managers.h"

#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "daemon/plane/manager.h"
#include "fabric/error.h"
#include "fabric/runtime.h"

namespace softib::daemon {

namespace {

using fabric::refuse;

using fabric::CableEnd;

const fabric::Port& port_at(const fabric::Fabric& fabric, const CableEnd& end) {
  return fabric.hosts[end.node].hcas[end.hca].ports[end.port - 1];
}

}  // namespace

std::vector<CableEnd> places_for_opensm(const fabric::Fabric& fabric) {
  if (!fabric.manager.ports.empty()) return fabric.manager.ports;
  std::vector<CableEnd> places;
  std::set<u32> served;
  for (u32 host = 0; host < fabric.hosts.size(); ++host)
    for (u32 hca = 0; hca < fabric.hosts[host].hcas.size(); ++hca)
      for (const fabric::Port& port : fabric.hosts[host].hcas[hca].ports)
        if (port.cabled && fabric.hosts[host].kind == fabric::HostKind::server && served.insert(port.subnet).second)
          places.push_back({fabric::EndKind::hca, host, hca, port.number});
  return places;
}

StockManagers::StockManagers(const fabric::Fabric& fabric, std::string dir, Programs programs)
    : fabric_(fabric), dir_(std::move(dir)), programs_(std::move(programs)) {
  for (const CableEnd& place : places_for_opensm(fabric)) {
    const fabric::Port& port = port_at(fabric, place);
    std::string folder = to_string(fabric, place);
    std::replace(folder.begin(), folder.end(), '/', '-');
    Process& process = processes_.emplace_back();
    process.place = place;
    process.label = to_string(fabric, place);
    process.guid = port.guid;
    process.subnet = port.subnet;
    process.dir = fmt::format("{}/opensm/{}", dir_, folder);
  }
}

// Its state is worth nothing without the fabric.
StockManagers::~StockManagers() { kill(); }

bool StockManagers::kill() { return kill_all(processes_); }

fabric::Parsed<void> StockManagers::start() {
  if (programs_.opensm.empty() || programs_.preload_library.empty())
    return refuse("sm: opensm: softibd was started without --opensm and --preload-library; use 'softib up'");
  const std::string partitions = partitions_of(fabric_);
  for (Process& process : processes_)
    if (auto started = start_one(process, partitions); !started) return started;
  return {};
}

std::vector<std::string> StockManagers::arguments(const Process& process, bool has_partitions) const {
  const fabric::ManagerOptions& options = fabric_.manager;
  // Without -F and -P opensm takes the machine's files of /etc/opensm.
  std::vector<std::string> words{programs_.opensm,
                                 "-F",
                                 process.dir + "/opensm.conf",
                                 "-g",
                                 fmt::format("0x{:016x}", process.guid),
                                 "-f",
                                 process.dir + "/opensm.log",
                                 "-s",
                                 std::to_string(options.sweep_interval),
                                 "-p",
                                 std::to_string(options.priority)};
  if (has_partitions) words.insert(words.end(), {"-P", process.dir + "/partitions.conf"});
  if (!options.routing.empty()) words.insert(words.end(), {"-R", options.routing});
  words.insert(words.end(), options.args.begin(), options.args.end());
  return words;
}

std::vector<std::string> StockManagers::environment(const Process& process) const {
  return {"SOFTIB_FABRIC_DIR=" + dir_, "SOFTIB_HOST=" + fabric_.hosts[process.place.node].name,
          "LD_PRELOAD=" + programs_.preload_library, "OSM_CACHE_DIR=" + process.dir, "OSM_TMP_DIR=" + process.dir};
}

fabric::Parsed<void> StockManagers::start_one(Process& process, const std::string& partitions) {
  std::error_code error;
  std::filesystem::create_directories(process.dir, error);
  const bool written = !error &&
                       fabric::write_file(process.dir + "/opensm.conf",
                                          "# What softibd has to say beside the command line: a log that can be read "
                                          "while opensm runs.\nforce_log_flush TRUE\n") &&
                       (partitions.empty() || fabric::write_file(process.dir + "/partitions.conf", partitions));
  if (!written) return refuse(fmt::format("cannot write the files of opensm in {}", process.dir));
  Launch opensm{arguments(process, !partitions.empty()), environment(process)};
  opensm.folder = fabric_.manager.folder.empty() ? process.dir : fabric_.manager.folder;
  opensm.output = process.dir + "/opensm.out";
  opensm.death_signal = SIGKILL;
  if (auto started = process.start(opensm); !started)
    return refuse(fmt::format("cannot start opensm: {}", std::strerror(to_int(started.error()))));
  spdlog::info("opensm, process {}, starts on {}; its log is {}/opensm.log", process.pid, process.label, process.dir);
  return {};
}

void StockManagers::ended(size_t index) {
  Process& process = processes_[index];
  if (!process.take_end()) return;
  spdlog::warn("opensm on {} (process {}) ended with {}; 'softib sm restart' starts it again", process.label,
               process.pid, how_it_ended(*process.ended));
}

}  // namespace softib::daemon
