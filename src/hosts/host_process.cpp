#include "hosts/host_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <system_error>

#include "base/error_text.h"
#include "fabric/addresses.h"
#include "hosts/address_report.h"
#include "hosts/files.h"
#include "hosts/interface_files.h"
#include "hosts/message.h"
#include "hosts/services.h"

namespace softib::hosts {

namespace {

constexpr int own_line = 3;  // the socket to the keeper, out of the way of closing all others

// Errors are lines for people, and there is nobody else to hear them but the keeper.
std::string failed(const fabric::Error& error) { return std::string(order::failed) + error.text; }

fabric::Parsed<void> set_up_network(u32 number) {
  auto network = Netlink::open();
  if (!network) return tl::unexpected<fabric::Error>(network.error());
  if (auto up = network->set_up("lo"); !up) return up;
  if (auto given = network->add_address("eth0", {fabric::ethernet_address(number), fabric::network_prefix}); !given)
    return given;
  // Where the kernel has no IPv6, there is none here.
  (void)network->add_address("eth0", fabric::ethernet_address6(number), fabric::network_prefix6);
  if (auto up = network->set_up("eth0"); !up) return up;
  // Multicast leaves by eth0 where a program names no other.
  return network->add_route("eth0", {0xe0000000U, 4});
}

// ping's sockets without the right for raw ones; where the network is fresh nobody may have them.
void allow_ping() { (void)write_at_once("/proc/sys/net/ipv4/ping_group_range", fmt::format("{0} {0}", ::getegid())); }

class HostProcess {
 public:
  HostProcess(const Surroundings& around, const PlaceSpec& spec)
      : files_{around.folder, spec.name, around.own_pids},
        number_(spec.number),
        services_(around, spec),
        addresses_(around.folder, spec),
        interface_files_(around.folder, spec) {}

  [[noreturn]] void run() {
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    ::sigprocmask(SIG_SETMASK, &wanted, nullptr);
    const Fd children(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    for (;;) {
      pollfd events[] = {{own_line, POLLIN, 0}, {children.get(), POLLIN, 0}, {addresses_.fd(), POLLIN, 0}};
      if (::poll(events, 3, services_.restart()) < 0 && errno != EINTR) ::_exit(1);
      if (events[1].revents) reap(children);
      if (events[2].revents) interfaces_changed();
      if (events[0].revents) follow();
    }
  }

 private:
  void follow() {
    auto word = receive_text(own_line);
    if (!word) ::_exit(0);
    Notes notes;
    std::string answer(order::done);
    if (*word == order::set_up) {
      if (auto done = set_up(notes); !done) answer = failed(done.error());
    } else {
      mount_devices(files_, notes);
      services_.wait();
      interface_files_.look();
    }
    if (!notes.empty()) answer = std::string(order::noted) + notes.front();
    if (!send_text(own_line, answer)) ::_exit(0);
    if (*word != order::set_up) return;
    addresses_.start();
    services_.start();
  }

  void interfaces_changed() {
    addresses_.look();
    interface_files_.look();
  }

  fabric::Parsed<void> set_up(Notes& notes) {
    if (::sethostname(files_.host.data(), files_.host.size()) < 0)
      return fabric::refuse(fmt::format("cannot name {}: {}", files_.host, error_text()));
    if (auto network = set_up_network(number_); !network) return network;
    allow_ping();
    if (!mount_host_files(files_, notes))
      return fabric::refuse(fmt::format("cannot mount files of {}: {}", files_.host, error_text()));
    return {};
  }

  // With process numbers of its own the host's orphans come here too.
  void reap(const Fd& children) {
    signalfd_siginfo info;
    while (::read(children.get(), &info, sizeof info) > 0) {
    }
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) services_.ended(pid, status);
  }

  HostFiles files_;
  u32 number_;
  Services services_;
  AddressReport addresses_;
  InterfaceFiles interface_files_;
};

}  // namespace

void live_as_host(const Surroundings& around, const PlaceSpec& spec, int line, pid_t keeper) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // In a PID namespace of its own the parent shows as 0.
  if (const pid_t parent = ::getppid(); parent != keeper && !(around.own_pids && parent == 0)) ::_exit(0);
  ::prctl(PR_SET_NAME, "softib-host");
  if (::dup2(line, own_line) < 0) ::_exit(1);
  ::syscall(SYS_close_range, own_line + 1U, ~0U, 0U);
  HostProcess(around, spec).run();
}

}  // namespace softib::hosts
