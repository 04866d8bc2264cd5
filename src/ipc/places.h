// How hosts' namespaces are held and handed out. The program softib-hosts keeps them: one process for each host lives
// in the host's namespaces, and who wants to run something there gets a handle (pidfd) of that process for setns().
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>

#include "base/types.h"

namespace softib::ipc {

// What a host is for the programs on it.
enum class PlaceKind : u32 {
  plain = 0,   // an environment only: network, names and files are the machine's
  namespaces,  // a network, a name and mounts of its own
  lost         // it had them, and their keeper died
};

// From the keeper to softibd, over the socket that it was started with: `ready` or `refused` first, then what happens.
struct KeeperReport {
  enum class Kind : u32 { ready = 1, refused, host_lost };
  Kind kind;
  u32 user_namespace;  // ready: 1 where the hosts are in a user namespace, because the user is not root
  char link[16];       // ready: the machine's own interface to the hosts' network, if there is one
  char text[1024];     // refused: cause and remedy; ready: notes, one a line; host_lost: what happened
};

// To the keeper's socket `<fabric folder>/places.sock` (SOCK_SEQPACKET): one request, one reply.
struct EnterRequest {
  char host[64];
};

// With a pidfd where `error` is 0.
struct EnterReply {
  i32 error;
  u32 own_pids;        // 1: the host has a PID namespace; only a child of who enters is in it
  u64 user_namespace;  // inode of the hosts' user namespace; who is in it already must not enter it again
  char text[256];      // error: cause
};

inline constexpr std::string_view places_socket = "places.sock";

// Below the fabric's folder: for each host that has namespaces a link to its name, called by the inode of its UTS
// namespace. So a process finds out where it is when its environment is that of another host: launchers pass all
// variables on.
inline constexpr std::string_view places_folder = "places";

// The name of the host in whose namespaces this process is, in `room`; empty: in none of this fabric. Direct system
// calls: it may be asked before the C library's functions can be used.
inline std::string_view host_of_place(const char* folder, std::span<char> room) {
  char target[64]{};
  if (::syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/ns/uts", target, sizeof target - 1) <= 0) return {};
  char path[PATH_MAX];  // target: "uts:[4026531838]"
  const char* digits = std::strchr(target, '[');
  const int length = digits ? std::snprintf(path, sizeof path, "%s/places/%.*s", folder,
                                            static_cast<int>(std::strcspn(digits + 1, "]")), digits + 1)
                            : 0;
  if (length <= 0 || static_cast<size_t>(length) >= sizeof path) return {};
  const long got = ::syscall(SYS_readlinkat, AT_FDCWD, path, room.data(), room.size() - 1);
  if (got <= 0) return {};
  room[static_cast<size_t>(got)] = '\0';
  return {room.data(), static_cast<size_t>(got)};
}

// Cuts what is too long; `field` ends with a zero.
template <size_t size>
void put_text(char (&field)[size], std::string_view text) {
  const size_t length = text.copy(field, size - 1);
  std::memset(field + length, 0, size - length);
}

template <size_t size>
std::string_view get_text(const char (&field)[size]) {
  return {field, ::strnlen(field, size)};
}

}  // namespace softib::ipc
