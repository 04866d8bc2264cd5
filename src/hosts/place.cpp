#include "hosts/place.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error_text.h"
#include "fabric/error.h"
#include "hosts/host_process.h"
#include "hosts/message.h"
#include "ipc/places.h"

namespace softib::hosts {

namespace {

using fabric::refuse;

// A fork whose child finds itself in new namespaces. Single-threaded, as fork() would have to be here too.
pid_t fork_into(unsigned long namespaces) {
  return static_cast<pid_t>(::syscall(SYS_clone, namespaces | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

Mac mac_of(u32 host) {
  const u32 number = host + 1;
  return {0x02, 0x53, 0x49, 0x42, static_cast<u8>(number >> 8), static_cast<u8>(number)};
}

}  // namespace

std::string port_name(u32 host) { return fmt::format("port{}", host); }

fabric::Parsed<Place> Place::begin(const Surroundings& around, const PlaceSpec& spec) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
    return refuse(fmt::format("cannot make a socket pair: {}", error_text()));
  Fd ours(ends[0]);
  Fd theirs(ends[1]);
  const pid_t keeper = ::getpid();
  unsigned long namespaces = CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS;
  if (around.own_pids) namespaces |= CLONE_NEWPID;
  const pid_t pid = fork_into(namespaces);
  if (pid < 0) return refuse(fmt::format("cannot make the namespaces of {}: {}", spec.name, error_text()));
  if (pid == 0) live_as_host(around, spec, theirs.get(), keeper);
  Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!handle) return refuse(fmt::format("cannot get a handle of {}: {}", spec.name, error_text()));
  return Place(spec, pid, std::move(handle), std::move(ours));
}

fabric::Parsed<void> Place::connect(Netlink& closet, const std::string& bridge) {
  // One whose process died may still be there.
  if (auto removed = closet.remove(port_name(spec_.number)); !removed) return removed;
  auto paired = closet.add_pair({port_name(spec_.number), bridge, "eth0", pid_, -1, mac_of(spec_.number)});
  if (!paired) return paired;
  if (!send_text(line_.get(), order::set_up)) return refuse(fmt::format("{} ended before it was set up", spec_.name));
  return {};
}

fabric::Parsed<void> Place::finish(Notes& notes) {
  auto answer = receive_text(line_.get());
  if (!answer) return refuse(fmt::format("{} ended while it was set up", spec_.name));
  if (answer->starts_with(order::failed)) return refuse(answer->substr(order::failed.size()));
  if (answer->starts_with(order::noted)) notes.push_back(answer->substr(order::noted.size()));
  return {};
}

void Place::tell_where(const std::string& folder) {
  struct stat names {};
  if (::stat(fmt::format("/proc/{}/ns/uts", pid_).c_str(), &names) < 0) return;
  const std::string places = fmt::format("{}/{}", folder, ipc::places_folder);
  ::mkdir(places.c_str(), 0755);
  where_ = fmt::format("{}/{}", places, names.st_ino);
  ::unlink(where_.c_str());
  (void)!::symlink(spec_.name.c_str(), where_.c_str());
}

void Place::forget_where() { ::unlink(where_.c_str()); }

void Place::furnish(Notes& notes) {
  if (furnished_) return;
  auto answer = ask(order::furnish);
  furnished_ = answer.has_value();
  if (answer && answer->starts_with(order::noted)) notes.push_back(answer->substr(order::noted.size()));
}

std::optional<std::string> Place::ask(std::string_view word) const {
  if (!send_text(line_.get(), word)) return std::nullopt;
  return receive_text(line_.get());
}

}  // namespace softib::hosts
