#include "coll/bootstrap/identity.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "coll/bootstrap/crowding.h"

namespace softib::coll {

namespace {

std::string boot_id() {
  std::string text;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), text);
  return text;
}

// FNV-1a
u64 hash_of(std::string_view text) {
  u64 hash = 0xcbf2'9ce4'8422'2325;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100'0000'01b3;
  return hash;
}

std::string whole_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != 0 ? name.data() : "localhost";
}

}  // namespace

u64 host_key_of(std::string_view host, std::string_view boot, u64 shm_device, u64 shm_root) {
  return hash_of(fmt::format("{}\n{}\n{}\n{}", host, boot, shm_device, shm_root));
}

// Containers with one name and one kernel may have a /dev/shm each.
Member own_identity(const Environment& environment) {
  Member member;
  member.host = whole_host_name();
  member.process = ::getpid();
  member.processors = own_processors();
  struct stat shm {};
  if (::stat("/dev/shm", &shm) != 0) shm = {};
  const bool named = !environment.host_id.empty();
  const std::string boot = boot_id();
  member.host_key = host_key_of(named ? environment.host_id : member.host, named ? "" : boot, shm.st_dev, shm.st_ino);
  member.machine_key = boot.empty() ? 0 : hash_of(boot);
  return member;
}

}  // namespace softib::coll
