#include "hosts/closet.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "fabric/addresses.h"
#include "fabric/error.h"
#include "fabric/runtime.h"

namespace softib::hosts {

namespace {

using fabric::refuse;

using namespace std::chrono_literals;

constexpr size_t longest_interface_name = 15;
constexpr std::string_view prefix = "sib-";
constexpr const char* machine_port = "machine";
constexpr Ipv4Network machine_itself{fabric::machine_address, 32};

std::optional<Netlink::Use> user_of_any(Netlink& machine, std::span<const Ipv4Network> networks) {
  for (const Ipv4Network& network : networks)
    if (auto use = machine.user_of(network)) return use;
  return std::nullopt;
}

// The kernel takes a namespace away a moment after its last process has ended.
std::optional<Netlink::Use> lasting_user(Netlink& machine, std::span<const Ipv4Network> networks) {
  constexpr auto patience = 1s;
  for (const auto deadline = std::chrono::steady_clock::now() + patience;; std::this_thread::sleep_for(20ms)) {
    auto use = user_of_any(machine, networks);
    if (!use || !use->interface.starts_with(prefix) || std::chrono::steady_clock::now() > deadline) return use;
  }
}

fabric::Parsed<void> none_uses(Netlink& machine, std::span<const Ipv4Network> networks) {
  constexpr std::string_view result = "so it has no interface on the hosts' network";
  if (auto use = lasting_user(machine, networks))
    return refuse(fmt::format("{} of the machine has {}/{} already, {}", use->interface,
                              fabric::ipv4_text(use->network.address), use->network.prefix, result));
  const auto resolv_conf = fabric::read_file("/etc/resolv.conf");
  if (const auto server = name_server_in(resolv_conf.value_or(""), networks))
    return refuse(fmt::format("the machine's name server is {}, {}", fabric::ipv4_text(*server), result));
  return {};
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

std::optional<u32> name_server_in(std::string_view resolv_conf, std::span<const Ipv4Network> networks) {
  std::istringstream lines{std::string(resolv_conf)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key, text;
    in_addr address{};
    words >> key >> text;
    if (key != "nameserver" || ::inet_pton(AF_INET, text.c_str(), &address) != 1) continue;
    const u32 server = ntohl(address.s_addr);
    for (const Ipv4Network& network : networks)
      if (overlap({server, 32}, network)) return server;
  }
  return std::nullopt;
}

fabric::Parsed<void> Closet::join_machine(std::string_view fabric, u32 hosts) {
  if (rights_.user_namespace) return refuse("only root can give the machine an interface on the hosts' network");
  const auto to_hosts = networks_of(fabric::ethernet_address(0), fabric::ethernet_address(hosts - 1));
  auto all = to_hosts;
  all.push_back(machine_itself);
  if (auto free = none_uses(machine_, all); !free) return free;
  std::string name = link_name(fabric);
  if (auto paired = network_.add_pair({machine_port, bridge, name, 0, machine_namespace_.get(), {}}); !paired)
    return paired;
  link_ = name;
  if (auto given = machine_.add_address(name, machine_itself); !given) return given;
  if (auto up = machine_.set_up(name); !up) return up;
  for (const Ipv4Network& network : to_hosts)
    if (auto added = machine_.add_route(name, network); !added) return added;
  return {};
}

}  // namespace softib::hosts
