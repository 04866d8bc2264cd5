#include "shim/files.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>

#include "shim/tree.h"

namespace softib::shim {

namespace {

// As the lowest free number, which is what open() promises: the number at hand, or a lower one.
int lowest_number(Fd made, bool close_on_exec) {
  int lower = ::fcntl(made.get(), close_on_exec ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
  if (lower >= 0 && lower < made.get()) return lower;
  if (lower >= 0) ::close(lower);
  ::fcntl(made.get(), F_SETFD, close_on_exec ? FD_CLOEXEC : 0);
  return made.release();
}

class Registry final : public kernel::FdRegistry {
 public:
  Result<int> adopt_async_fd(Fd fd, u32 context) override {
    std::unique_ptr<File> file(new (std::nothrow) AsyncFile(context));
    if (!file) return fail(ENOMEM);
    return hand_over(std::move(fd), FdClass::async, std::move(file), true);
  }

  Result<int> adopt_channel_fd(Fd fd, u32 context, Channel channel) override {
    std::unique_ptr<File> file(new (std::nothrow) ChannelFile(context, channel));
    if (!file) return fail(ENOMEM);
    return hand_over(std::move(fd), FdClass::channel, std::move(file), true);
  }

  Result<Channel> channel_of_fd(int fd, u32 context) override {
    FdTable::Pin pin = fd_table().pin(fd);
    if (pin.kind() != FdClass::channel) return fail(EBADF);
    auto& file = pin.as<ChannelFile>();
    if (file.context() != context) return fail(EBADF);
    return file.channel();
  }

  void drop_fd(int fd) override { ::close(fd); }
};

Registry& registry() {
  static Registry& instance = *new Registry;  // never destroyed: other threads may use it while the process ends
  return instance;
}

Result<std::unique_ptr<File>> make_command_file(hca::Session& in, u32 context, u32 device, kernel::FileOrigin origin) {
  std::unique_ptr<File> file(new (std::nothrow) CommandFile(in, context, device, origin));
  if (!file) return fail(ENOMEM);
  return file;
}

// Only softibd makes the sockets that command files are, so a socket whose other end is somebody else's is none.
bool made_by_daemon(int fd) {
  struct stat status;
  if (::fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  ucred maker{};
  socklen_t length = sizeof maker;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &maker, &length) != 0) return false;
  if (maker.uid != ::geteuid()) return false;  // also what is not a Unix socket: no user at all
  if (hca::Session* known = hca::Session::current())
    return maker.pid == known->segment().header.daemon_pid || !maker.pid;
  const Tree* tree = Tree::find();
  if (!tree) return false;
  auto pid = read_attribute(std::string(tree->folder()) + "/daemon.pid");
  // From another pid namespace the pid reads as 0; the daemon then settles the question.
  return maker.pid == 0 || (pid && std::atoi(pid->c_str()) == maker.pid);
}

}  // namespace

Result<int> hand_over(Fd made, FdClass kind, std::unique_ptr<File> file, bool close_on_exec) {
  int given = lowest_number(std::move(made), close_on_exec);
  if (fd_table().set(given, kind, file)) return given;
  ::close(given);
  return fail(EMFILE);
}

Result<u32> find_device(const hca::Session& in, u32 number) {
  const ipc::Segment& segment = in.segment();
  u32 count = std::min(segment.header.device_count, ipc::max_devices - 1);
  for (u32 i = 1; i <= count; ++i) {
    const ipc::Device& device = segment.devices[i];
    if (device.host == in.host() && device.index_on_host == number) return i;
  }
  return fail(ENXIO);
}

void tell_lost_daemon() {
  static constinit std::atomic<bool> told{false};
  const Tree* tree = Tree::find();
  std::string fabric(tree ? tree->fabric() : "default");
  tell_once(told, "softib: the daemon of fabric '" + fabric + "' does not answer any more (it was stopped, or died); " +
                      "start the fabric with 'softib up' and then this program again\n");
}

Fd hand_over_plain(Fd made, bool close_on_exec) { return Fd(lowest_number(std::move(made), close_on_exec)); }

u64 device_number(DeviceNode node) {
  const DeviceNumber number = number_of(node);
  return makedev(number.major, number.minor);
}

CommandFile::CommandFile(hca::Session& session, u32 context, u32 device, kernel::FileOrigin origin)
    : number_(session.segment().devices[device % ipc::max_devices].index_on_host) {
  new (&storage_.uverbs) kernel::UverbsFile(session, registry(), context, device, origin);
}

CommandFile::~CommandFile() { closed(); }

void CommandFile::closed() {
  if (std::exchange(alive_, false)) storage_.uverbs.~UverbsFile();
}

Result<hca::Session*> session() {
  auto got = hca::Session::get();
  if (!got) return got;
  hca::Session& in = **got;
  for (int fd : {in.client().fd(), in.segment_fd(), in.memory().fd()}) {
    if (fd >= 0 && fd_table().kind(fd) == FdClass::none) fd_table().set_own(fd);
  }
  return got;
}

Result<int> open_device(u32 number, int flags) {
  if (flags & O_DIRECTORY) return fail(ENOTDIR);
  auto in = session();
  if (!in) return fail(in.error());
  auto device = find_device(**in, number);
  if (!device) return fail(device.error());
  Fd command;
  auto reply = (*in)->client().call_fd<ipc::OpenContext>(0, {*device, 0}, -1, &command);
  if (!reply) {
    if (to_int(reply.error()) == EIO) tell_lost_daemon();
    return fail(reply.error());
  }
  if (!command) return fail(EIO);
  auto file = make_command_file(**in, reply->context, *device, kernel::FileOrigin::opened);
  if (!file) return fail(file.error());
  return hand_over(std::move(command), FdClass::command, std::move(*file), (flags & O_CLOEXEC) != 0);
}

bool recognise_command_file(int fd) {
  int kept = errno;
  struct stat status;
  bool ours = made_by_daemon(fd) && ::fstat(fd, &status) == 0;
  if (ours) {
    auto in = session();
    auto reply = in ? (*in)->client().call<ipc::ImportContext>(0, {status.st_ino}) : fail(in.error());
    ours = reply.has_value();
    if (ours) {
      auto file = make_command_file(**in, reply->context, reply->device, kernel::FileOrigin::inherited);
      ours = file && fd_table().set(fd, FdClass::command, *file);
    }
  }
  if (!ours && fd_table().kind(fd) == FdClass::received) fd_table().clear(fd);
  errno = kept;
  return ours;
}

}  // namespace softib::shim
