#include "shim/device_nodes.h"

#include "shim/ours.h"
#include "shim/umad_file.h"

namespace softib::shim {

void show_device(struct statx& status, DeviceNode node) {
  const DeviceNumber number = number_of(node);
  status.stx_mode = node_mode;
  status.stx_rdev_major = number.major;
  status.stx_rdev_minor = number.minor;
  status.stx_size = 0;
  status.stx_blocks = 0;
}

bool is_device_file(int fd, mode_t mode, DeviceNode& node) {
  if (S_ISFIFO(mode)) {
    node = {DeviceKind::rdma_cm, 0};
    return classify(fd).kind == FdClass::rdma_cm;
  }
  if (!S_ISSOCK(mode)) return false;
  static_cast<void>(classify_device_call(fd));  // finds out about command files
  FdTable::Pin pin = fd_table().pin(fd);
  if (pin.kind() == FdClass::command)
    node = {DeviceKind::uverbs, pin.as<CommandFile>().number()};
  else if (pin.kind() == FdClass::umad)
    node = pin.as<UmadFile>().node();
  else
    return false;
  return true;
}

}  // namespace softib::shim
