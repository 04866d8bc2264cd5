#include "ipoib/options.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <charconv>

namespace softib::ipoib {

namespace {

constexpr u32 least_mtu = 68;  // of IPv4

constexpr const char* description =
    "IP over InfiniBand in user space (RFC 4391, 4392, 4755): serves network interfaces ib0, ib1, ... of this network\n"
    "namespace over the host's InfiniBand ports. An ordinary program of libibverbs and libibumad: on SoftIB it is "
    "started\n"
    "with `softib run HOST -- softib-ipoib ...` in the host's network namespace. Runs in the foreground until "
    "SIGTERM,\n"
    "and takes its interfaces with it.";

constexpr const char* footer =
    "An interface is NAME=DEVICE/PORT and options behind commas:\n"
    "  pkey=0x8001        partition; without it that of the port's first P_Key\n"
    "  mode=datagram      over UD, MTU 2044 (the default), or mode=connected: over RC, MTU 65520\n"
    "  mtu=N              a smaller MTU\n"
    "  address=A/PREFIX   IPv4 or IPv6 address; may be given several times. `ip addr add` does it as well, at any "
    "time\n"
    "\n"
    "Examples:\n"
    "  softib-ipoib --interface ib0=mlx5_0/1,address=10.0.0.1/16 --interface ib0.8001=mlx5_0/1,pkey=0x8001\n"
    "  unshare -n softib run host0 -- softib-ipoib --interface ib0=mlx5_0/1,mode=connected,address=10.0.0.1/16\n"
    "\n"
    "Needs CAP_NET_ADMIN in the network namespace, or a TUN descriptor (IFF_TUN|IFF_NO_PI|IFF_VNET_HDR) by --tun-fd.\n"
    "See docs/ipoib.md.";

template <typename T>
bool read_number(std::string_view text, T& value) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  const auto [end, error] = std::from_chars(text.begin(), text.end(), value, base);
  return error == std::errc{} && end == text.end() && !text.empty();
}

Told<void> take_option(InterfaceOptions& options, std::string_view key, std::string_view value) {
  if (key == "pkey") {
    if (!read_number(value, options.pkey) || (options.pkey & 0x7fff) == 0)
      return complain(fmt::format("pkey={}: not a P_Key (0x1 to 0x7fff, with or without bit 15)", value));
    options.pkey |= 0x8000;
  } else if (key == "mode") {
    if (value != "datagram" && value != "connected")
      return complain(fmt::format("mode={}: 'datagram' or 'connected'", value));
    options.mode = value == "connected" ? Mode::connected : Mode::datagram;
  } else if (key == "mtu") {
    if (!read_number(value, options.mtu) || options.mtu < least_mtu || options.mtu > connected_mtu)
      return complain(fmt::format("mtu={}: a number from {} to {}", value, least_mtu, connected_mtu));
  } else if (key == "address") {
    const auto address = parse_prefixed(value);
    if (!address || address->ip.is_multicast())
      return complain(fmt::format("address={}: not an address as 10.0.0.1/16 or 2001:db8::1/64", value));
    options.addresses.push_back(*address);
  } else {
    return complain(fmt::format("unknown option '{}'; there are pkey, mode, mtu, address", key));
  }
  return {};
}

Told<void> take_place(InterfaceOptions& options, std::string_view place) {
  const auto slash = place.find('/');
  options.device = place.substr(0, slash);
  if (options.device.empty()) return complain("no device; as in ib0=mlx5_0/1");
  if (slash == std::string_view::npos) return {};
  const std::string_view number = place.substr(slash + 1);
  if (!read_number(number, options.port) || options.port == 0 || options.port > 255)
    return complain(fmt::format("'{}' is not a port number", number));
  return {};
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool good_name(std::string_view name) {
  return !name.empty() && name.size() < IFNAMSIZ && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(), [](char c) { return c == '/' || c == ':' || c <= ' '; });
}

Told<void> attach_descriptors(Options& options, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    const auto equals = text.find('=');
    int fd = -1;
    if (equals == std::string::npos || !read_number(std::string_view(text).substr(equals + 1), fd) || fd < 0)
      return complain(fmt::format("--tun-fd {}: as in ib0=5", text));
    const auto at = std::find_if(options.interfaces.begin(), options.interfaces.end(),
                                 [&](const auto& one) { return one.name == text.substr(0, equals); });
    if (at == options.interfaces.end()) return complain(fmt::format("--tun-fd {}: no --interface of that name", text));
    at->tun_fd = fd;
  }
  return {};
}

Told<void> take_all(Options& options, const std::vector<std::string>& interfaces,
                    const std::vector<std::string>& descriptors) {
  for (const std::string& text : interfaces) {
    auto one = parse_interface(text);
    if (!one) return complain(fmt::format("--interface {}: {}", text, one.error().text));
    const bool twice = std::any_of(options.interfaces.begin(), options.interfaces.end(),
                                   [&](const auto& other) { return other.name == one->name; });
    if (twice) return complain(fmt::format("--interface {}: the name is taken already", text));
    options.interfaces.push_back(std::move(*one));
  }
  return attach_descriptors(options, descriptors);
}

}  // namespace

Told<InterfaceOptions> parse_interface(const std::string& text) {
  InterfaceOptions options;
  const auto parts = split(text, ',');
  const auto equals = parts[0].find('=');
  if (equals == std::string_view::npos) return complain("not of the form NAME=DEVICE/PORT, as ib0=mlx5_0/1");
  options.name = parts[0].substr(0, equals);
  if (!good_name(options.name))
    return complain(fmt::format("'{}' can't be an interface's name (1 to {} characters)", options.name, IFNAMSIZ - 1));
  if (auto placed = take_place(options, parts[0].substr(equals + 1)); !placed)
    return tl::unexpected<Complaint>(placed.error());
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto sign = parts[i].find('=');
    if (sign == std::string_view::npos) return complain(fmt::format("'{}' is not of the form OPTION=VALUE", parts[i]));
    if (auto taken = take_option(options, parts[i].substr(0, sign), parts[i].substr(sign + 1)); !taken)
      return tl::unexpected<Complaint>(taken.error());
  }
  return options;
}

std::optional<InterfaceOptions> child_of(const InterfaceOptions& parent, u16 pkey) {
  InterfaceOptions child;
  child.pkey = static_cast<u16>(pkey | 0x8000);
  child.name = fmt::format("{}.{:04x}", parent.name, child.pkey);
  child.device = parent.device;
  child.port = parent.port;
  child.mode = parent.mode;
  child.mtu = parent.mtu;
  if (!good_name(child.name)) return std::nullopt;
  return child;
}

tl::expected<Options, Ending> parse_command_line(int argc, const char* const* argv) {
  Options options;
  std::vector<std::string> interfaces, descriptors;
  CommandLine line(description, "softib-ipoib");
  line.footer(footer);
  line.texts("--interface", interfaces,
             "An interface to serve (default: ib0, ib1, ... for all InfiniBand ports, in order, with --children)",
             "NAME=DEVICE/PORT[,...]");
  line.flag("--children", options.children,
            "Serve a child, as ib0.8001, for each further P_Key of a port, also for those that the subnet manager "
            "gives it later");
  line.flag("--wait", options.wait,
            "Serve interfaces whose device is not there once it is; without it they are mistakes");
  line.texts("--tun-fd", descriptors, "Serve this open TUN descriptor instead of making the device", "NAME=FD");
  line.descriptor("--ready-fd", options.ready_fd,
                  "Gets a line `ready` once all interfaces are up; one whose port is not active, or that no subnet "
                  "manager answers for, is waited for no longer than 5 s");
  line.flag("--verbose", options.verbose, "Tell of what is resolved and joined");
  if (auto ending = line.parse(argc, argv)) return tl::unexpected<Ending>(*std::move(ending));
  if (auto taken = take_all(options, interfaces, descriptors); !taken)
    return tl::unexpected<Ending>(Ending{2, taken.error().text + "\n"});
  options.children |= options.interfaces.empty();
  return options;
}

}  // namespace softib::ipoib
