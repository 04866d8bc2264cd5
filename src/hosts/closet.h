// The cable closet: a network namespace with nothing but a bridge that joins all hosts' eth0, and, for root, a cable
// from there into the machine's own network.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "fabric/fabric.h"
#include "hosts/netlink.h"
#include "hosts/rights.h"

namespace softib::hosts {

class Closet {
 public:
  // This process is in it afterwards.
  [[nodiscard]] static fabric::Parsed<Closet> enter();
  ~Closet();
  Closet(Closet&&) noexcept = default;
  Closet& operator=(Closet&&) = delete;

  // Gives the machine an interface on the hosts' network, so that programs outside reach these first `hosts`. All other
  // addresses of the network are where the machine had them: its name server may have one. Where the hosts' addresses
  // or its own there are in use already it gets no interface; the error tells by whom.
  [[nodiscard]] fabric::Parsed<void> join_machine(std::string_view fabric, u32 hosts);

  [[nodiscard]] Netlink& network() { return network_; }
  [[nodiscard]] const Rights& rights() const { return rights_; }
  [[nodiscard]] const std::string& link() const { return link_; }  // the machine's interface; empty: none

  static constexpr const char* bridge = "hosts";

 private:
  Closet(Netlink machine, Fd machine_namespace, Rights rights, Netlink network);

  Netlink machine_;
  Fd machine_namespace_;
  Rights rights_;
  Netlink network_;
  std::string link_;
};

// "sib-lab"; longer names are cut and made different by four digits. At most 15 characters, as interfaces may have.
[[nodiscard]] std::string link_name(std::string_view fabric);

// The first name server of a resolv.conf that is in one of these networks.
[[nodiscard]] std::optional<u32> name_server_in(std::string_view resolv_conf, std::span<const Ipv4Network> networks);

}  // namespace softib::hosts
