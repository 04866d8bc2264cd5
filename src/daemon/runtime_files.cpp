#include "daemon/runtime_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error_text.h"
#include "fabric/error.h"
#include "fabric/runtime.h"
#include "ipc/places.h"

namespace softib::daemon {

using fabric::refuse;

fabric::Parsed<RuntimeFiles> RuntimeFiles::claim(const std::string& dir) {
  auto folder = fabric::open_private_dir(dir, true);
  if (!folder) return tl::unexpected<fabric::Error>(folder.error());
  auto lock = fabric::take_lock(dir);
  if (!lock && to_int(lock.error()) == EWOULDBLOCK) return refuse("a daemon is running in " + dir + " already");
  if (!lock) return refuse("cannot lock " + dir + "/lock: " + error_text(lock.error()));
  RuntimeFiles files(dir, std::move(*lock));
  files.sweep();
  return files;
}

RuntimeFiles::~RuntimeFiles() {
  if (lock_) sweep();
}

void RuntimeFiles::sweep() const {
  std::error_code ignored;
  // The socket first: who finds it gone does not wait for an answer.
  std::filesystem::remove(dir_ + "/daemon.sock", ignored);
  std::filesystem::remove(dir_ + "/daemon.pid", ignored);
  std::filesystem::remove(dir_ + "/" + std::string(ipc::places_socket), ignored);
  std::filesystem::remove_all(dir_ + "/" + std::string(ipc::places_folder), ignored);
  std::filesystem::remove_all(dir_ + "/etc", ignored);
  std::filesystem::remove_all(dir_ + "/hosts", ignored);
}

fabric::Parsed<void> RuntimeFiles::write() const {
  if (auto pid = fabric::write_file(dir_ + "/daemon.pid", std::to_string(::getpid()) + "\n"); !pid)
    return refuse("cannot write " + dir_ + "/daemon.pid: " + error_text(pid.error()));
  return {};
}

fabric::Parsed<Fd> RuntimeFiles::listen() const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string path = dir_ + "/daemon.sock";
  if (path.size() >= sizeof address.sun_path)
    return refuse(path + " is too long for a socket's name; set SOFTIB_RUNTIME_DIR to a shorter one");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  mode_t before = ::umask(0177);
  bool bound = socket && ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  int error = errno;
  ::umask(before);
  if (!bound || ::listen(socket.get(), SOMAXCONN) < 0)
    return refuse("cannot listen on " + path + ": " + error_text(bound ? errno : error));
  return socket;
}

}  // namespace softib::daemon
