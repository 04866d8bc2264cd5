#include "hosts/mounts.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>

#include "base/error_text.h"
#include "base/fd.h"
#include "fabric/runtime.h"

namespace softib::hosts {

namespace {

constexpr unsigned long harmless = MS_NOSUID | MS_NODEV | MS_NOEXEC;

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool mount_on(const std::string& what, const std::string& where) {
  return ::mount(what.c_str(), where.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

bool mount_small_tmpfs(const std::string& where) {
  return ::mount("softib", where.c_str(), "tmpfs", harmless, "mode=755,size=1m") == 0;
}

Fd open_folder(const std::string& path) { return Fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)); }

std::string path_of(const Fd& folder) { return fmt::format("/proc/self/fd/{}", folder.get()); }

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr)
    if (const std::string_view name = entry->d_name; name != "." && name != "..") names.emplace_back(name);
  return names;
}

// -- sysfs

// What is at `from` shows at `to`, in a folder of the tmpfs that covers it.
void repeat_entry(const std::string& from, const std::string& to) {
  struct stat info {};
  if (::lstat(from.c_str(), &info) < 0) return;
  if (S_ISLNK(info.st_mode)) {
    char target[PATH_MAX];
    const ssize_t length = ::readlink(from.c_str(), target, sizeof target - 1);
    if (length > 0) (void)!::symlink(std::string(target, static_cast<size_t>(length)).c_str(), to.c_str());
    return;
  }
  if (S_ISDIR(info.st_mode))
    ::mkdir(to.c_str(), 0755);
  else
    ::close(::open(to.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  (void)mount_on(from, to);
}

// The machine may have folders of the same name: of these the tree's content is put among the machine's, everything
// further down takes the machine's place.
bool shared_with_machine(const std::string& below_sys) {
  return below_sys.empty() || below_sys == "/class" || below_sys == "/devices" ||
         (below_sys.starts_with("/devices/pci") && std::count(below_sys.begin(), below_sys.end(), '/') == 2);
}

bool add_tree(const std::string& tree, const std::string& below_sys) {
  const std::string here = "/sys" + below_sys;
  bool room = false;
  for (const std::string& name : names_in(tree + below_sys)) {
    const std::string inner = below_sys + "/" + name;
    if (!is_folder(tree + inner)) continue;
    if (is_folder("/sys" + inner) && shared_with_machine(inner)) {
      if (!add_tree(tree, inner)) return false;
      continue;
    }
    if (!is_folder("/sys" + inner)) {
      if (!room && !make_room_in(here, {})) return false;
      room = true;
      ::mkdir(("/sys" + inner).c_str(), 0755);
    }
    if (!mount_on(tree + inner, "/sys" + inner)) return false;
  }
  return true;
}

// -- names

// On a tmpfs over /sys, which the new sysfs covers: so the file itself lies nowhere.
bool mount_hostname(const std::string& host, Notes& notes) {
  if (!exists("/etc/hostname")) return false;
  const std::string file = "/sys/hostname";
  const bool covered = mount_small_tmpfs("/sys");
  if (!covered || !fabric::write_file(file, host + "\n") || !mount_on(file, "/etc/hostname"))
    notes.push_back(fmt::format("/etc/hostname is the machine's: {}", error_text()));
  return covered;
}

// Containers may have theirs for reading only, and then ask the same of others.
bool mount_new_sysfs() {
  return ::mount("sysfs", "/sys", "sysfs", harmless, nullptr) == 0 ||
         ::mount("sysfs", "/sys", "sysfs", harmless | MS_RDONLY, nullptr) == 0;
}

// The machine's shows the interfaces of the machine. Groups of processes stay visible.
void mount_name_and_sysfs(const std::string& host, Notes& notes) {
  const Fd cgroup = open_folder("/sys/fs/cgroup");
  const bool covered = mount_hostname(host, notes);
  if (mount_new_sysfs()) {
    if (cgroup) (void)mount_on(path_of(cgroup), "/sys/fs/cgroup");
    return;
  }
  notes.push_back(fmt::format("/sys shows the machine's network interfaces: {}", error_text()));
  if (covered) (void)::umount2("/sys", MNT_DETACH);
}

bool mount_hosts(const HostFiles& files) {
  // A cache of names that runs on the machine knows the machine's file only.
  if (exists("/run/nscd/socket")) (void)mount_on("/dev/null", "/run/nscd/socket");
  return mount_on(files.folder + "/etc/hosts", "/etc/hosts");
}

void mount_processes(Notes& notes) {
  if (::mount("proc", "/proc", "proc", harmless, nullptr) < 0)
    notes.push_back(fmt::format("/proc shows the machine's processes: {}", error_text()));
}

}  // namespace

bool make_room_in(const std::string& folder, const std::vector<std::string_view>& without) {
  const Fd below = open_folder(folder);
  if (!below || !mount_small_tmpfs(folder)) return false;
  for (const std::string& name : names_in(path_of(below)))
    if (std::find(without.begin(), without.end(), name) == without.end())
      repeat_entry(path_of(below) + "/" + name, folder + "/" + name);
  return true;
}

bool close_room_in(const std::string& folder) {
  return ::mount(nullptr, folder.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | harmless, nullptr) == 0;
}

bool mount_host_files(const HostFiles& files, Notes& notes) {
  // What the machine mounts later shows here; what is mounted here doesn't show there.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) < 0 || !mount_hosts(files)) return false;
  if (files.own_pids) mount_processes(notes);
  mount_name_and_sysfs(files.host, notes);
  return true;
}

void mount_devices(const HostFiles& files, Notes& notes) {
  const std::string tree = files.folder + "/hosts/" + files.host;
  if (!add_tree(tree + "/sys", ""))
    notes.push_back(fmt::format("/sys/class/infiniband is not there for static programs: {}", error_text()));
  // In /dev no folder can be made that the machine would not have too.
  if (is_folder("/dev/infiniband")) (void)mount_on(tree + "/dev/infiniband", "/dev/infiniband");
}

}  // namespace softib::hosts
