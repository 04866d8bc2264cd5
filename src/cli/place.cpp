#include "cli/place.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "base/capabilities.h"
#include "base/error_text.h"
#include "base/fd.h"
#include "cli/commands/commands.h"
#include "cli/environment.h"
#include "cli/waiting.h"
#include "fabric/error.h"
#include "ipc/passed_fds.h"

namespace softib::cli {

namespace {

using fabric::refuse;

constexpr timeval answer_limit{30, 0};  // a host of a large fabric is made first

struct Door {
  ipc::EnterReply about;
  Fd handle;  // pidfd of a process that is there
};

Fd connect_to_keeper(const std::string& dir) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  fmt::format("{}/{}", dir, ipc::places_socket).copy(address.sun_path, sizeof address.sun_path - 1);
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) < 0) return {};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &answer_limit, sizeof answer_limit);
  return socket;
}

fabric::Parsed<Door> ask_keeper(const std::string& dir, const std::string& host) {
  const Fd socket = connect_to_keeper(dir);
  if (!socket) return refuse(fmt::format("cannot ask the keeper of the hosts' namespaces: {}", error_text()));
  ipc::EnterRequest request{};
  ipc::put_text(request.host, host);
  if (::send(socket.get(), &request, sizeof request, MSG_NOSIGNAL) < 0)
    return refuse(fmt::format("cannot ask the keeper of the hosts' namespaces: {}", error_text()));
  Door door{};
  iovec part{&door.about, sizeof door.about};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ipc::FdRoom<1> room{};
  room.lend_to(message);
  const ssize_t got = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  if (got > 0) ipc::for_each_passed_fd(message, [&door](int fd) { door.handle.reset(fd); });
  if (got != sizeof door.about) return refuse("the keeper of the hosts' namespaces does not answer");
  if (door.about.error) return refuse(fmt::format("cannot go to {}: {}", host, ipc::get_text(door.about.text)));
  if (!door.handle) return refuse(fmt::format("cannot go to {}: out of file descriptors", host));
  return door;
}

bool is_own_user_namespace(u64 inode) {
  struct stat own {};
  return ::stat("/proc/self/ns/user", &own) == 0 && own.st_ino == inode;
}

}  // namespace

fabric::Parsed<bool> enter_place(const std::string& dir, const std::string& host) {
  auto door = ask_keeper(dir, host);
  if (!door) return refuse(door.error().text);
  char folder[PATH_MAX];
  if (!::getcwd(folder, sizeof folder)) std::strcpy(folder, "/");
  int namespaces = CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS;
  if (!is_own_user_namespace(door->about.user_namespace)) namespaces |= CLONE_NEWUSER;
  if (door->about.own_pids) namespaces |= CLONE_NEWPID;
  if (::setns(door->handle.get(), namespaces) < 0)
    return refuse(fmt::format("cannot enter the namespaces of {}: {}", host, error_text()));
  if (::chdir(folder) < 0 && ::chdir("/") < 0) return refuse(fmt::format("no folder on {}: {}", host, error_text()));
  if (auto kept = keep_capabilities(host_capabilities); !kept)
    return refuse(fmt::format("cannot keep rights on {}: {}", host, error_text(kept.error())));
  return door->about.own_pids != 0;
}

int become_on_host(const HostEnvironment& host, const std::vector<std::string>& command) {
  bool only_children = false;
  if (host.place == ipc::PlaceKind::namespaces) {
    auto entered = enter_place(host.dir, host.host);
    if (!entered) return complain(entered.error().text, run_failed);
    only_children = *entered;
  }
  apply(host.variables);
  return only_children ? wait_for_child(command) : execute(command);
}

}  // namespace softib::cli
