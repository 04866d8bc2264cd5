// Wrappers of calls about hosts: their names and addresses, and what this one is called.
#include <arpa/inet.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "shim/libc.h"
#include "shim/names.h"
#include "shim/on.h"

namespace softib::shim {

namespace {

constexpr size_t room_for_answer = 1024;

// Empty: this process has to do with no fabric. It may do so without being on a host: launchers look hosts up.
std::string fabric_hosts() {
  const char* folder = std::getenv("SOFTIB_FABRIC_DIR");
  if (!folder || folder[0] != '/') return {};
  const int kept = errno;
  std::string text;
  const int fd = libc::open((std::string(folder) + "/etc/hosts").c_str(), O_RDONLY | O_CLOEXEC, 0);
  char piece[16384];
  for (ssize_t got; fd >= 0 && (got = libc::read(fd, piece, sizeof piece)) > 0;)
    text.append(piece, static_cast<size_t>(got));
  if (fd >= 0) libc::close(fd);
  errno = kept;
  return text;
}

std::optional<HostName> look_up(const char* name, int family) {
  if (!name || !*name) return std::nullopt;
  return find_name(fabric_hosts(), name, family);
}

// The C library's answer begins with the address as a text; the program asked for a name.
void put_canonical_name(addrinfo* list, const std::string& name) {
  if (!list || !list->ai_canonname) return;
  std::free(list->ai_canonname);
  list->ai_canonname = ::strdup(name.c_str());
}

// What the functions without _r give out, for each thread until its next call.
hostent* static_answer(const HostName& found) {
  static thread_local hostent answer;
  static thread_local char room[room_for_answer];
  return fill(found, answer, room, sizeof room) ? &answer : nullptr;
}

int answer_into(const HostName& found, hostent* answer, char* room, size_t size, hostent** result, int* error) {
  if (!fill(found, *answer, room, size)) {
    *result = nullptr;
    *error = NETDB_INTERNAL;
    return ERANGE;
  }
  *result = answer;
  *error = NETDB_SUCCESS;
  return 0;
}

std::optional<HostName> name_of(const void* address, socklen_t length, int family) {
  HostAddress wanted;
  wanted.family = family;
  if ((family != AF_INET && family != AF_INET6) || !address || length != wanted.size()) return std::nullopt;
  std::memcpy(wanted.bytes.data(), address, length);
  return find_address(fabric_hosts(), wanted);
}

}  // namespace

namespace on {

int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** result) {
  addrinfo wanted{};
  if (hints) wanted = *hints;
  auto found = look_up(node, wanted.ai_family);
  if (!found && wanted.ai_family == AF_INET6) found = look_up(node, AF_UNSPEC);
  if (!found || wanted.ai_flags & AI_NUMERICHOST) return libc::getaddrinfo(node, service, hints, result);
  char text[INET6_ADDRSTRLEN];
  ::inet_ntop(found->address.family, found->address.bytes.data(), text, sizeof text);
  // Without hints the C library means these flags; an address must not be kept back because the machine has no such
  // network, as AI_ADDRCONFIG would have it.
  if (!hints) wanted.ai_flags = AI_V4MAPPED;
  wanted.ai_flags &= ~AI_ADDRCONFIG;
  const int done = libc::getaddrinfo(text, service, &wanted, result);
  if (done == 0) put_canonical_name(*result, found->name);
  return done;
}

int getnameinfo(const sockaddr* address, socklen_t length, char* host, socklen_t host_room, char* service,
                socklen_t service_room, int flags) {
  auto wanted = host && host_room > 0 && !(flags & NI_NUMERICHOST) ? address_in(address, length) : std::nullopt;
  auto found = wanted ? find_address(fabric_hosts(), *wanted) : std::nullopt;
  if (!found) return libc::getnameinfo(address, length, host, host_room, service, service_room, flags);
  if (found->name.size() >= host_room) return EAI_OVERFLOW;
  if (service && service_room > 0)
    if (const int done = libc::getnameinfo(address, length, nullptr, 0, service, service_room, flags)) return done;
  std::memcpy(host, found->name.c_str(), found->name.size() + 1);
  return 0;
}

hostent* gethostbyname(const char* name) {
  auto found = look_up(name, AF_INET);
  return found ? static_answer(*found) : libc::gethostbyname(name);
}

hostent* gethostbyname2(const char* name, int family) {
  auto found = look_up(name, family);
  return found ? static_answer(*found) : libc::gethostbyname2(name, family);
}

int gethostbyname_r(const char* name, hostent* answer, char* room, size_t size, hostent** result, int* error) {
  auto found = look_up(name, AF_INET);
  return found ? answer_into(*found, answer, room, size, result, error)
               : libc::gethostbyname_r(name, answer, room, size, result, error);
}

int gethostbyname2_r(const char* name, int family, hostent* answer, char* room, size_t size, hostent** result,
                     int* error) {
  auto found = look_up(name, family);
  return found ? answer_into(*found, answer, room, size, result, error)
               : libc::gethostbyname2_r(name, family, answer, room, size, result, error);
}

hostent* gethostbyaddr(const void* address, socklen_t length, int family) {
  auto found = name_of(address, length, family);
  return found ? static_answer(*found) : libc::gethostbyaddr(address, length, family);
}

int gethostbyaddr_r(const void* address, socklen_t length, int family, hostent* answer, char* room, size_t size,
                    hostent** result, int* error) {
  auto found = name_of(address, length, family);
  return found ? answer_into(*found, answer, room, size, result, error)
               : libc::gethostbyaddr_r(address, length, family, answer, room, size, result, error);
}

int gethostname(char* name, size_t size) {
  const Tree* tree = Tree::find();
  if (!tree) return libc::gethostname(name, size);
  const std::string_view host = tree->host();
  const size_t copied = host.copy(name, size);
  if (copied < size) name[copied] = '\0';
  return copied < size ? 0 : to_libc(-ENAMETOOLONG);
}

int __gethostname_chk(char* name, size_t size, size_t room) {
  return size > room ? libc::__gethostname_chk(name, size, room) : gethostname(name, size);
}

// MPICH's launcher gives its processes all variables of mpiexec's, with the host on which that runs.
int putenv(char* text) {
  constexpr std::string_view own_host = "SOFTIB_HOST=";
  constexpr std::string_view launcher = "hydra_pmi_proxy";
  if (text && Tree::find() && std::string_view(text).starts_with(own_host) && program_invocation_short_name == launcher)
    return 0;
  return libc::putenv(text);
}

int uname(utsname* about) {
  const int done = libc::uname(about);
  const Tree* tree = Tree::find();
  if (done != 0 || !tree) return done;
  const size_t copied = tree->host().copy(about->nodename, sizeof about->nodename - 1);
  about->nodename[copied] = '\0';
  return done;
}

}  // namespace on

}  // namespace softib::shim
