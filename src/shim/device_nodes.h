// How a device node looks to the stat family: the file in the tree is a placeholder, the program sees a
// character device.
#pragma once

#include <sys/stat.h>

#include "base/types.h"
#include "shim/files.h"

namespace softib::shim {

inline constexpr mode_t node_mode = S_IFCHR | 0666;

template <typename Status>
void show_device(Status& status, DeviceNode node) {
  status.st_mode = node_mode;
  status.st_rdev = device_number(node);
  status.st_size = 0;
  status.st_blocks = 0;
}

void show_device(struct statx& status, DeviceNode node);

// The node that the descriptor is open on, found out if need be. `mode`: what the C library's own fstat said; anything
// but a socket or a pipe can't be one.
bool is_device_file(int fd, mode_t mode, DeviceNode& node);

// fstat() of a descriptor went well: make it show what the program should see.
template <typename Status>
int show_descriptor(int fd, Status& status) {
  DeviceNode node;
  if (is_device_file(fd, status.st_mode, node)) show_device(status, node);
  return 0;
}

}  // namespace softib::shim
