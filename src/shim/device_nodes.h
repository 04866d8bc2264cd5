// How a uverbs device node looks to the stat family: the file in the tree is a placeholder, the program sees a
// character device.
#pragma once

#include <sys/stat.h>

#include "base/types.h"
#include "shim/files.h"

namespace softib::shim {

inline constexpr mode_t node_mode = S_IFCHR | 0666;

template <typename Status>
void show_device(Status& status, u32 uverbs) {
  status.st_mode = node_mode;
  status.st_rdev = device_number(uverbs);
  status.st_size = 0;
  status.st_blocks = 0;
}

void show_device(struct statx& status, u32 uverbs);

// The N of uverbsN if the descriptor is a command file, found out if need be. `is_socket`: what the C library's own
// fstat said; anything else can't be one.
bool is_command_file(int fd, bool is_socket, u32& uverbs);

// fstat() of a descriptor went well: make it show what the program should see.
template <typename Status>
int show_descriptor(int fd, Status& status) {
  u32 uverbs = 0;
  if (is_command_file(fd, S_ISSOCK(status.st_mode), uverbs)) show_device(status, uverbs);
  return 0;
}

}  // namespace softib::shim
