#include "daemon/stock_managers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "daemon/plane/manager.h"
#include "fabric/runtime.h"

namespace softib::daemon {

namespace {

using fabric::CableEnd;

tl::unexpected<fabric::Error> refuse(std::string text) { return tl::unexpected<fabric::Error>({std::move(text)}); }

const fabric::Port& port_at(const fabric::Fabric& fabric, const CableEnd& end) {
  return fabric.hosts[end.node].hcas[end.hca].ports[end.port - 1];
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

struct Launch {
  const char* program;
  const char* folder;
  const char* output;
  char* const* arguments;
  char* const* environment;
  pid_t parent;
};

// In the child: nothing but plain system calls between fork and exec.
[[noreturn]] void become(const Launch& launch) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launch.parent) ::_exit(1);  // softibd died before that
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  const int output = ::open(launch.output, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  if (null >= 0 && output >= 0 && ::dup2(null, 0) >= 0 && ::dup2(output, 1) >= 0 && ::dup2(output, 2) >= 0 &&
      ::chdir(launch.folder) == 0) {
    ::syscall(SYS_close_range, 3U, ~0U, 0U);
    ::execve(launch.program, launch.arguments, launch.environment);
  }
  const char* why = ::strerrordesc_np(errno);
  if (::write(2, why, std::strlen(why)) < 0) ::_exit(126);
  ::_exit(127);
}

// What softibd's own environment says of these does not hold for it.
bool is_replaced(std::string_view variable, const std::vector<std::string>& ours) {
  const std::string_view name = variable.substr(0, variable.find('=') + 1);
  return std::any_of(ours.begin(), ours.end(), [name](const std::string& own) { return own.starts_with(name); });
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

std::string how_it_ended(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return fmt::format("signal {} ({})", WTERMSIG(wait_status), ::strsignal(WTERMSIG(wait_status)));
  return fmt::format("exit code {}", WEXITSTATUS(wait_status));
}

StockManagers::StockManagers(const fabric::Fabric& fabric, std::string dir, ManagerPrograms programs)
    : fabric_(fabric), dir_(std::move(dir)), programs_(std::move(programs)) {
  for (const CableEnd& place : places_for_opensm(fabric)) {
    const fabric::Port& port = port_at(fabric, place);
    Process process{place, to_string(fabric, place), port.guid, port.subnet, {}};
    std::string folder = process.label;
    std::replace(folder.begin(), folder.end(), '/', '-');
    process.dir = fmt::format("{}/opensm/{}", dir_, folder);
    processes_.push_back(std::move(process));
  }
}

// Its state is worth nothing without the fabric.
StockManagers::~StockManagers() {
  for (const Process& process : processes_)
    if (process.pid && !process.ended) ::kill(-process.pid, SIGKILL);
  for (const Process& process : processes_)
    if (process.pid && !process.ended) ::waitpid(process.pid, nullptr, 0);
}

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
  const std::vector<std::string> ours{
      "SOFTIB_FABRIC_DIR=" + dir_, "SOFTIB_HOST=" + fabric_.hosts[process.place.node].name,
      "LD_PRELOAD=" + programs_.preload_library, "OSM_CACHE_DIR=" + process.dir, "OSM_TMP_DIR=" + process.dir};
  std::vector<std::string> words = ours;
  for (char** variable = ::environ; *variable; ++variable)
    if (!is_replaced(*variable, ours)) words.emplace_back(*variable);
  return words;
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
  const auto words = arguments(process, !partitions.empty());
  const auto variables = environment(process);
  const auto argv = pointers(words);
  const auto envp = pointers(variables);
  const std::string output = process.dir + "/opensm.out";
  const std::string& folder = fabric_.manager.folder.empty() ? process.dir : fabric_.manager.folder;
  const Launch launch{words[0].c_str(), folder.c_str(), output.c_str(), argv.data(), envp.data(), ::getpid()};
  const pid_t pid = ::fork();
  if (pid < 0) return refuse(fmt::format("cannot start opensm: {}", std::strerror(errno)));
  if (pid == 0) become(launch);
  process.pid = pid;
  process.handle = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  spdlog::info("opensm, process {}, starts on {}; its log is {}/opensm.log", pid, process.label, process.dir);
  return {};
}

void StockManagers::ended(size_t index) {
  Process& process = processes_[index];
  int status = 0;
  if (process.ended || ::waitpid(process.pid, &status, WNOHANG) != process.pid) return;
  process.ended = status;
  process.handle.reset();
  spdlog::warn("opensm on {} (process {}) ended with {}; it is not started again", process.label, process.pid,
               how_it_ended(status));
}

}  // namespace softib::daemon
