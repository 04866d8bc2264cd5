// The TUN device that stands for an interface: IP packets without a link-layer header, each with a VnetHeader.
#pragma once

#include <sys/uio.h>

#include <optional>

#include "base/fd.h"
#include "ipoib/options.h"
#include "ipoib/segments.h"

namespace softib::ipoib {

class Tun {
 public:
  // Makes the device, or takes one that somebody else made.
  [[nodiscard]] static Told<Tun> open(const std::string& name, int given_fd);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] u32 index() const { return index_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  // With a carrier the kernel takes a moment before it sends: see Netlink::is_about_to_send().
  void set_carrier(bool on);
  // A VnetHeader and the packet behind it: size of both; nullopt: there is none now.
  [[nodiscard]] std::optional<u32> read(std::span<u8> room);
  void write_whole(std::span<const u8> header_and_packet);
  void write(const VnetHeader& header, std::span<const iovec> parts);
  void write(const VnetHeader& header, std::span<const u8> packet);

 private:
  Fd fd_;
  u32 index_ = 0;
  std::string name_;
};

}  // namespace softib::ipoib
