#include "cli/session_folder.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "base/error_text.h"
#include "fabric/error.h"
#include "fabric/runtime.h"

namespace softib::cli {

namespace {

using fabric::refuse;

namespace fs = std::filesystem;

constexpr size_t longest_dir = sizeof(sockaddr_un::sun_path) - sizeof "/daemon.sock";

// Whoever held the lock before may have removed the folder: then the descriptor is of no use.
bool still_there(const std::string& path, int fd) {
  struct stat by_path {};
  struct stat by_fd {};
  return ::lstat(path.c_str(), &by_path) == 0 && ::fstat(fd, &by_fd) == 0 && by_path.st_ino == by_fd.st_ino &&
         by_path.st_dev == by_fd.st_dev;
}

// "; 'lab' runs (--name lab)": who wants a fabric that has no such name may mean that one.
std::string hint_at_running() {
  std::vector<std::string> names = fabric::fabrics_in(fabric::runtime_dir());
  std::erase_if(names, [](const std::string& each) {
    return fabric::liveness(fabric::fabric_dir(each)) != fabric::Liveness::running;
  });
  if (names.empty()) return {};
  if (names.size() == 1) return fmt::format("; '{0}' runs (--name {0})", names[0]);
  return fmt::format("; {} others run ('softib list')", names.size());
}

}  // namespace

fabric::Parsed<LockedFolder> lock_folder(std::string_view name, bool create) {
  LockedFolder folder{fabric::fabric_dir(name), {}};
  if (folder.path.size() > longest_dir)
    return refuse(
        fmt::format("'{}' is too long for a socket's path; set SOFTIB_RUNTIME_DIR to a shorter one", folder.path));
  constexpr int most_tries = 100;
  for (int tries = 0;;) {
    if (!create && fabric::liveness(folder.path) == fabric::Liveness::absent) return folder;
    if (auto runtime = fabric::open_private_dir(fabric::runtime_dir(), create); !runtime)
      return refuse(runtime.error().text);
    auto opened = fabric::open_private_dir(folder.path, create);
    // Removed by another softib, between its making and its opening?
    if (!opened && ::access(folder.path.c_str(), F_OK) < 0 && ++tries < most_tries) continue;
    if (!opened) return refuse(opened.error().text);
    if (::flock(opened->get(), LOCK_EX) < 0) {
      if (errno == EINTR) continue;
      return refuse(fmt::format("cannot lock {}: {}", folder.path, error_text()));
    }
    if (!still_there(folder.path, opened->get())) continue;
    folder.lock = std::move(*opened);
    return folder;
  }
}

fabric::Parsed<void> remove_folder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return refuse(fmt::format("cannot remove {}: {}", path, error.message()));
  return {};
}

fabric::Parsed<void> empty_folder(const std::string& path) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (auto removed = remove_folder(entry.path()); !removed) return removed;
  if (error) return refuse(fmt::format("cannot read {}: {}", path, error.message()));
  return {};
}

std::string command_for(std::string_view command, std::string_view fabric) {
  return fabric == "default" ? fmt::format("softib {}", command) : fmt::format("softib {} --name {}", command, fabric);
}

fabric::Parsed<std::string> running_folder(std::string_view name) {
  std::string dir = fabric::fabric_dir(name);
  switch (fabric::liveness(dir)) {
    case fabric::Liveness::absent:
      return refuse(fmt::format("fabric '{}' is not running; start it with '{}'{}", name, command_for("up", name),
                                hint_at_running()));
    case fabric::Liveness::stale:
      return refuse(
          fmt::format("fabric '{}' is not running: its daemon died (see {}/daemon.log); start it again with '{}'", name,
                      dir, command_for("up", name)));
    case fabric::Liveness::running:
      break;
  }
  // Programs will be told to trust this folder.
  for (const std::string& path : {fabric::runtime_dir(), dir})
    if (auto opened = fabric::open_private_dir(path, false); !opened) return refuse(opened.error().text);
  return dir;
}

}  // namespace softib::cli
