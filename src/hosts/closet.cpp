#include "hosts/closet.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <chrono>
#include <system_error>
#include <thread>

#include "fabric/addresses.h"
#include "fabric/error.h"

namespace softib::hosts {

namespace {

using fabric::refuse;

using namespace std::chrono_literals;

constexpr size_t longest_interface_name = 15;
constexpr std::string_view prefix = "sib-";
constexpr const char* machine_port = "machine";
constexpr Ipv4Network hosts_network{fabric::machine_address, fabric::network_prefix};

// The kernel takes a namespace away a moment after its last process has ended.
std::optional<Netlink::Use> lasting_user(Netlink& machine) {
  constexpr auto patience = 1s;
  for (const auto deadline = std::chrono::steady_clock::now() + patience;; std::this_thread::sleep_for(20ms)) {
    auto use = machine.user_of(hosts_network);
    if (!use || !use->interface.starts_with(prefix) || std::chrono::steady_clock::now() > deadline) return use;
  }
}

}  // namespace

std::string link_name(std::string_view fabric) {
  if (prefix.size() + fabric.size() <= longest_interface_name) return fmt::format("{}{}", prefix, fabric);
  return fmt::format("{}{}{:04x}", prefix, fabric.substr(0, longest_interface_name - prefix.size() - 4),
                     fabric::short_hash(fabric));
}

Closet::Closet(Netlink machine, Fd machine_namespace, Rights rights, Netlink network)
    : machine_(std::move(machine)),
      machine_namespace_(std::move(machine_namespace)),
      rights_(rights),
      network_(std::move(network)) {}

// Left alone it would go with the namespace, a moment later: the next fabric is to find it gone.
Closet::~Closet() {
  if (!link_.empty()) (void)network_.remove(machine_port);
}

fabric::Parsed<Closet> Closet::enter() {
  auto machine = Netlink::open();
  if (!machine) return refuse(machine.error().text);
  Fd machine_namespace(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  auto rights = enter_closet();
  if (!rights) return refuse(rights.error().text);
  auto network = Netlink::open();
  if (!network) return refuse(network.error().text);
  if (auto made = network->add_bridge(bridge); !made) return refuse(made.error().text);
  return Closet(std::move(*machine), std::move(machine_namespace), *rights, std::move(*network));
}

fabric::Parsed<void> Closet::join_machine(std::string_view fabric) {
  if (rights_.user_namespace) return refuse("only root can give the machine an interface on the hosts' network");
  if (auto use = lasting_user(machine_))
    return refuse(fmt::format("{} of the machine has {}/{} already, so it has no interface on the hosts' network {}/{}",
                              use->interface, fabric::ipv4_text(use->network.address), use->network.prefix,
                              fabric::ipv4_text(fabric::ethernet_address(0) & ~0xffffU), fabric::network_prefix));
  std::string name = link_name(fabric);
  if (auto paired = network_.add_pair({machine_port, bridge, name, 0, machine_namespace_.get(), {}}); !paired)
    return paired;
  link_ = name;
  if (auto given = machine_.add_address(name, hosts_network); !given) return given;
  return machine_.set_up(name);
}

}  // namespace softib::hosts
