#include "shim/device_nodes.h"

#include <sys/sysmacros.h>

#include "shim/ours.h"

namespace softib::shim {

void show_device(struct statx& status, u32 uverbs) {
  u64 number = device_number(uverbs);
  status.stx_mode = node_mode;
  status.stx_rdev_major = major(number);
  status.stx_rdev_minor = minor(number);
  status.stx_size = 0;
  status.stx_blocks = 0;
}

bool is_command_file(int fd, bool is_socket, u32& uverbs) {
  if (!is_socket || classify_device_call(fd) != FdClass::command) return false;
  FdTable::Pin pin = fd_table().pin(fd);
  if (pin.kind() != FdClass::command) return false;
  uverbs = pin.as<CommandFile>().number();
  return true;
}

}  // namespace softib::shim
