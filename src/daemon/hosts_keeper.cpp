#include "daemon/hosts_keeper.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "fabric/error.h"
#include "fabric/host_names.h"
#include "fabric/interfaces.h"
#include "fabric/runtime.h"

namespace softib::daemon {

namespace {

using fabric::refuse;

constexpr int start_limit_ms = 30'000;
constexpr int stop_limit_ms = 5'000;


// `NUMBER NAME INTERFACE...` a line, as a file to read from its start.
Fd list_of_hosts(const fabric::Fabric& fabric) {
  std::string text;
  for (u32 i = 0; i < fabric.hosts.size(); ++i)
    if (fabric.hosts[i].kind == fabric::HostKind::server)
      text += fmt::format("{} {} {}\n", i, fabric.hosts[i].name, fmt::join(fabric::ipoib_interfaces(fabric, i), " "));
  Fd file(::memfd_create("hosts", MFD_CLOEXEC));
  if (!file || ::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) return {};
  return file;
}

std::string machine_name() {
  char name[65]{};
  return ::gethostname(name, sizeof name - 1) == 0 && fabric::valid_host_name(name) ? name : "";
}

std::string link_target(const std::string& path) {
  char target[NAME_MAX + 1];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  return length > 0 ? std::string(target, static_cast<size_t>(length)) : std::string();
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  std::error_code gone;
  for (std::filesystem::directory_iterator entry("/proc", gone), end; !gone && entry != end; entry.increment(gone))
    if (const pid_t pid = std::atoi(entry->path().filename().c_str()); pid > 0) pids.push_back(pid);
  return pids;
}

pid_t parent_of(pid_t pid) {
  const auto text = fabric::read_file(fmt::format("/proc/{}/stat", pid));
  const size_t name_end = text ? text->rfind(')') : std::string::npos;
  pid_t parent = 0;
  if (name_end != std::string::npos) (void)std::sscanf(text->c_str() + name_end, ") %*c %d", &parent);
  return parent;
}

bool readable_within(int fd, int milliseconds) {
  pollfd event{fd, POLLIN, 0};
  int result;
  do result = ::poll(&event, 1, milliseconds);
  while (result < 0 && errno == EINTR);
  return result > 0;
}

}  // namespace

HostsKeeper::~HostsKeeper() { stop(); }

// It sees its socket close, takes everything down and ends.
void HostsKeeper::stop() {
  socket_.reset();
  if (!child_.handle) return;
  if (!readable_within(child_.handle.get(), stop_limit_ms)) ::kill(child_.pid, SIGKILL);
  ::waitpid(child_.pid, nullptr, 0);
  child_.handle.reset();
}

fabric::Parsed<void> HostsKeeper::start(const Programs& programs) {
  if (fabric_.namespaces == fabric::Namespaces::off) {
    note_ = "the fabric file, or who started it, wants none";
    return write_names(false);
  }
  if (auto written = write_names(true); !written) return written;
  auto begun = begin(programs);
  if (begun) begun = wait_until_ready();
  if (begun) return {};
  stop();
  if (fabric_.namespaces == fabric::Namespaces::on)
    return refuse(
        fmt::format("hosts can't have namespaces of their own, which the fabric insists on: {}", begun.error().text));
  note_ = begun.error().text;
  spdlog::warn("hosts have no namespaces of their own: {}", note_);
  return write_names(false);
}

fabric::Parsed<void> HostsKeeper::begin(const Programs& programs) {
  if (programs.hosts_keeper.empty()) return refuse("softibd was started without --hosts-keeper; use 'softib up'");
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
    return refuse(fmt::format("cannot make a socket pair: {}", std::strerror(errno)));
  socket_ = Fd(ends[0]);
  const Fd theirs(ends[1]);
  const Fd hosts = list_of_hosts(fabric_);
  Launch keeper{{programs.hosts_keeper, "--dir", dir_, "--preload-library", programs.preload_library}, {}};
  if (fabric_.own_pids) keeper.arguments.emplace_back("--own-pids");
  keeper.input = hosts.get();
  keeper.third = theirs.get();
  keeper.death_signal = SIGTERM;
  auto child = launch(keeper);
  if (!child) return refuse(fmt::format("cannot start softib-hosts: {}", std::strerror(to_int(child.error()))));
  child_ = std::move(*child);
  return {};
}

fabric::Parsed<void> HostsKeeper::wait_until_ready() {
  ipc::KeeperReport report{};
  if (!readable_within(socket_.get(), start_limit_ms)) return refuse("softib-hosts does not answer");
  if (::recv(socket_.get(), &report, sizeof report, 0) != sizeof report)
    return refuse(fmt::format("softib-hosts ended at once; see {}/daemon.log", dir_));
  if (report.kind != ipc::KeeperReport::Kind::ready) return refuse(std::string(ipc::get_text(report.text)));
  is_ready_ = true;
  user_namespace_ = report.user_namespace;
  link_ = ipc::get_text(report.link);
  note_ = ipc::get_text(report.text);
  spdlog::info("hosts have namespaces of their own; process {} keeps them{}{}", child_.pid, note_.empty() ? "" : ": ",
               note_);
  return {};
}

// By the link that the keeper has made for the host's name space (ipc/places.h).
bool HostsKeeper::is_on(pid_t pid, std::string_view host) const {
  const std::string names = link_target(fmt::format("/proc/{}/ns/uts", pid));  // "uts:[4026531838]"
  const size_t begin = names.find('[') + 1;
  if (begin == 0) return false;
  const std::string_view inode = std::string_view(names).substr(begin, names.find(']') - begin);
  return link_target(fmt::format("{}/{}/{}", dir_, ipc::places_folder, inode)) == host;
}

u32 HostsKeeper::kill_all_on(std::string_view host, std::set<pid_t> spared) const {
  constexpr int passes = 3;  // for those that others start meanwhile
  u32 killed = 0;
  for (int pass = 0; pass < passes && kind() == ipc::PlaceKind::namespaces; ++pass) {
    for (const pid_t pid : all_processes()) {
      if (spared.contains(pid)) continue;
      // The handle first: it is of the process that is looked at then.
      const Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
      if (!handle || !is_on(pid, host) || parent_of(pid) == child_.pid) continue;
      spared.insert(pid);
      killed += ::syscall(SYS_pidfd_send_signal, handle.get(), SIGKILL, nullptr, 0) == 0;
    }
  }
  return killed;
}

// Where the preload library and the hosts' mounts look for it.
fabric::Parsed<void> HostsKeeper::write_names(bool own_network) const {
  const std::string folder = dir_ + "/etc";
  ::mkdir(folder.c_str(), 0755);
  const std::string text =
      own_network ? fabric::hosts_text(fabric_, machine_name()) : fabric::plain_hosts_text(fabric_);
  if (auto written = fabric::write_file(folder + "/hosts", text); !written)
    return refuse(fmt::format("cannot write {}/hosts: {}", folder, std::strerror(to_int(written.error()))));
  return {};
}

ipc::PlaceKind HostsKeeper::kind() const {
  if (!is_ready_) return ipc::PlaceKind::plain;
  return child_.handle ? ipc::PlaceKind::namespaces : ipc::PlaceKind::lost;
}

void HostsKeeper::ended() {
  int status = 0;
  if (!child_.handle || ::waitpid(child_.pid, &status, WNOHANG) != child_.pid) return;
  child_.handle.reset();
  socket_.reset();
  link_.clear();
  note_ = fmt::format("softib-hosts, process {}, ended with {}", child_.pid, how_it_ended(status));
  spdlog::error("{}: the hosts have lost their network, and nobody can go there any more", note_);
}

void HostsKeeper::told() {
  ipc::KeeperReport report{};
  if (::recv(socket_.get(), &report, sizeof report, MSG_DONTWAIT) == sizeof report)
    spdlog::warn("{}", ipc::get_text(report.text));
}

}  // namespace softib::daemon
