#include "hosts/rights.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error_text.h"
#include "fabric/runtime.h"
#include "hosts/files.h"

namespace softib::hosts {

namespace {

tl::unexpected<fabric::Error> refuse(int error) {
  return fabric::refuse(fmt::format("{}{}", error_text(error), remedy_for(error)));
}

// One line each: own number to the same number outside.
Result<void> keep_identity(uid_t user, gid_t group) {
  if (auto denied = write_at_once("/proc/self/setgroups", "deny"); !denied && to_int(denied.error()) != ENOENT)
    return denied;
  if (auto mapped = write_at_once("/proc/self/uid_map", fmt::format("{0} {0} 1", user)); !mapped) return mapped;
  return write_at_once("/proc/self/gid_map", fmt::format("{0} {0} 1", group));
}

Result<void> enter_user_namespace() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (::unshare(CLONE_NEWUSER) < 0) return fail(errno);
  return keep_identity(user, group);
}

u64 own_inode() {
  struct stat info {};
  return ::stat("/proc/self/ns/user", &info) == 0 ? info.st_ino : 0;
}

bool reads(const std::string& path, std::string_view value) {
  auto text = fabric::read_file(path);
  return text && text->substr(0, text->find('\n')) == value;
}

}  // namespace

std::string remedy_for(int error, const std::string& proc) {
  if (error == ENOSPC)
    return "; the limits in /proc/sys/user are reached or 0: as root, 'sysctl user.max_user_namespaces=10000 "
           "user.max_net_namespaces=10000'";
  if (error != EPERM && error != EACCES) return "";
  if (reads(proc + "/sys/kernel/unprivileged_userns_clone", "0"))
    return "; as root, 'sysctl kernel.unprivileged_userns_clone=1' allows it";
  if (reads(proc + "/sys/kernel/apparmor_restrict_unprivileged_userns", "1"))
    return "; as root, 'sysctl kernel.apparmor_restrict_unprivileged_userns=0' allows it";
  return "; in a container, start that with '--privileged', or with '--cap-add SYS_ADMIN --cap-add NET_ADMIN "
         "--security-opt seccomp=unconfined --security-opt apparmor=unconfined'";
}

fabric::Parsed<Rights> enter_closet() {
  Rights rights;
  if (::unshare(CLONE_NEWNET) < 0) {
    if (errno != EPERM) return refuse(errno);
    if (auto entered = enter_user_namespace(); !entered) return refuse(to_int(entered.error()));
    if (::unshare(CLONE_NEWNET) < 0) return refuse(errno);
    rights.user_namespace = true;
  }
  rights.inode = own_inode();
  return rights;
}

}  // namespace softib::hosts
