#include "ipoib/tun.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>

#include <cstring>

namespace softib::ipoib {

namespace {

constexpr short wanted_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;

Told<Fd> make_device(const std::string& name) {
  Fd fd(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return complain(fmt::format("{}: can't open /dev/net/tun: {}", name, std::strerror(errno)));
  ifreq request{};
  request.ifr_flags = wanted_flags;
  std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  if (::ioctl(fd.get(), TUNSETIFF, &request) == 0) return fd;
  if (errno == EBUSY || (errno == EINVAL && ::if_nametoindex(name.c_str()) != 0))
    return complain(fmt::format("{}: an interface of that name is there already", name));
  if (errno == EPERM)
    return complain(
        fmt::format("{}: no right to make interfaces in this network namespace (CAP_NET_ADMIN); see --tun-fd", name));
  return complain(fmt::format("{}: can't be made: {}", name, std::strerror(errno)));
}

Told<Fd> take_device(const std::string& name, int given, std::string& real_name) {
  ifreq request{};
  if (::ioctl(given, TUNGETIFF, &request) != 0)
    return complain(fmt::format("{}: descriptor {} is no TUN device", name, given));
  constexpr short kinds = IFF_TUN | IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if ((request.ifr_flags & kinds) != wanted_flags)
    return complain(fmt::format("{}: descriptor {} is not of IFF_TUN | IFF_NO_PI | IFF_VNET_HDR", name, given));
  real_name = request.ifr_name;
  ::fcntl(given, F_SETFL, ::fcntl(given, F_GETFL) | O_NONBLOCK);
  ::fcntl(given, F_SETFD, FD_CLOEXEC);
  return Fd(given);
}

}  // namespace

Told<Tun> Tun::open(const std::string& name, int given_fd) {
  Tun tun;
  tun.name_ = name;
  auto fd = given_fd < 0 ? make_device(name) : take_device(name, given_fd, tun.name_);
  if (!fd) return tl::unexpected<Complaint>(fd.error());
  tun.fd_ = std::move(*fd);
  tun.index_ = ::if_nametoindex(tun.name_.c_str());
  if (tun.index_ == 0) return complain(fmt::format("{}: not in this network namespace", tun.name_));
  // Only while it is down; a device that was handed over may be up, and have its type.
  ::ioctl(tun.fd(), TUNSETLINK, ARPHRD_INFINIBAND);
  const int header_size = sizeof(VnetHeader);
  if (::ioctl(tun.fd(), TUNSETVNETHDRSZ, &header_size) != 0 ||
      ::ioctl(tun.fd(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN) != 0)
    return complain(fmt::format("{}: the TUN device refuses offloads: {}", tun.name_, std::strerror(errno)));
  tun.set_carrier(false);
  return tun;
}

void Tun::set_carrier(bool on) {
  const int carrier = on ? 1 : 0;
  ::ioctl(fd(), TUNSETCARRIER, &carrier);
}

std::optional<u32> Tun::read(std::span<u8> room) {
  const auto got = ::read(fd(), room.data(), room.size());
  if (got < static_cast<ssize_t>(sizeof(VnetHeader))) return std::nullopt;
  return static_cast<u32>(got);
}

// Lost are what comes to an interface that is down, and packets that the kernel doesn't like: as on any network.
void Tun::write_whole(std::span<const u8> bytes) {
  [[maybe_unused]] const auto written = ::write(fd(), bytes.data(), bytes.size());
}

void Tun::write(const VnetHeader& header, std::span<const iovec> parts) {
  std::array<iovec, Gatherer::most_pieces + 2> all;
  all[0] = {const_cast<VnetHeader*>(&header), sizeof header};
  std::copy(parts.begin(), parts.end(), all.begin() + 1);
  [[maybe_unused]] const auto written = ::writev(fd(), all.data(), static_cast<int>(parts.size() + 1));
}

void Tun::write(const VnetHeader& header, std::span<const u8> packet) {
  const iovec part{const_cast<u8*>(packet.data()), packet.size()};
  write(header, std::span(&part, 1));
}

}  // namespace softib::ipoib
