// The command line of softib-ipoib.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ipoib/addresses.h"
#include "options/command_line.h"

namespace softib::ipoib {

// What a user is told.
struct Complaint {
  std::string text;
};
template <typename T>
using Told = tl::expected<T, Complaint>;
[[nodiscard]] inline tl::unexpected<Complaint> complain(std::string text) {
  return tl::unexpected<Complaint>(Complaint{std::move(text)});
}

enum class Mode : u8 { datagram, connected };

struct InterfaceOptions {
  std::string name;
  std::string device;
  u32 port = 1;
  u16 pkey = 0;  // 0: the first of the port's table
  Mode mode = Mode::datagram;
  u32 mtu = 0;  // 0: the largest that the mode has
  std::vector<Prefixed> addresses;
  int tun_fd = -1;  // -1: the device is made
};

struct Options {
  std::vector<InterfaceOptions> interfaces;  // empty: one for each InfiniBand port
  bool children = false;                     // of all further P_Keys that those ports have, or come to have
  bool wait = false;                         // for devices that are not there yet
  int ready_fd = -1;
  bool verbose = false;
};

inline constexpr u32 connected_mtu = 65520;
inline constexpr u32 encapsulation_size = 4;

// "ib0=mlx5_0/1,mode=connected,address=10.0.0.1/16"
[[nodiscard]] Told<InterfaceOptions> parse_interface(const std::string& text);

// An interface like `parent` in another partition, without addresses: "ib0.8001". nullopt: no name is as long.
[[nodiscard]] std::optional<InterfaceOptions> child_of(const InterfaceOptions& parent, u16 pkey);

// Parses a command line; text for the user and an exit status when there is nothing more to do.
[[nodiscard]] tl::expected<Options, Ending> parse_command_line(int argc, const char* const* argv);

}  // namespace softib::ipoib
