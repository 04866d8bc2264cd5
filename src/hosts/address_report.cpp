#include "hosts/address_report.h"

#include <fmt/format.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <charconv>

#include "base/error_text.h"
#include "ipc/client.h"
#include "ipc/places.h"

namespace softib::hosts {

namespace {

constexpr timeval patience{5, 0};

template <typename Number>
bool read_all(std::string_view text, Number& value, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size();
}

ipc::PortAddress booked(const rtnl::InterfaceAddress& address, u16 pkey) {
  ipc::PortAddress entry{};
  entry.family = address.family == AF_INET ? 4 : 6;
  entry.prefix = address.prefix;
  entry.pkey = pkey;
  std::copy(address.bytes.begin(), address.bytes.end(), entry.address);
  return entry;
}

}  // namespace

std::optional<PortInterface> port_interface(std::string_view text) {
  text = text.substr(0, text.find(','));
  const auto equals = text.find('='), slash = text.find('/');
  if (equals == text.npos || slash == text.npos || slash < equals) return std::nullopt;
  PortInterface found{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1, slash - equals - 1)), 0};
  if (!read_all(text.substr(slash + 1), found.port, 10)) return std::nullopt;
  return found;
}

std::optional<u16> partition_of(std::string_view interface, std::string_view parent) {
  if (interface == parent) return u16{0};
  if (!interface.starts_with(parent)) return std::nullopt;
  const std::string_view rest = interface.substr(parent.size());
  u16 pkey = 0;
  if (rest.size() != 5 || rest[0] != '.' || !read_all(rest.substr(1), pkey, 16)) return std::nullopt;
  return pkey;
}

AddressReport::AddressReport(std::string folder, const PlaceSpec& spec) : folder_(std::move(folder)), host_(spec.name) {
  for (const std::string& text : spec.interfaces)
    if (auto port = port_interface(text)) ports_.push_back(std::move(*port));
}

void AddressReport::start() {
  if (ports_.empty()) return;
  auto watch = rtnl::Watch::open();
  auto socket = rtnl::connect();
  if (!watch || !socket) return;
  watch_.emplace(std::move(*watch));
  socket_ = std::move(*socket);
}

void AddressReport::look() {
  const rtnl::Changes changes = watch_->read();
  if (!changes.addresses && !changes.links) return;
  const auto all = rtnl::addresses(socket_.get());
  if (!all) return;
  for (const PortInterface& port : ports_) look_at(port, *all);
}

// An interface without any address is about to be made, or its service to be started anew: what was known of it holds.
void AddressReport::look_at(const PortInterface& port, const std::vector<rtnl::InterfaceAddress>& all) {
  std::vector<rtnl::InterfaceAddress> now;
  ipc::SetAddresses::Request request{};
  ipc::put_text(request.host, host_);
  ipc::put_text(request.device, port.device);
  request.port = port.port;
  for (const rtnl::InterfaceAddress& address : all) {
    char name[IF_NAMESIZE]{};
    const auto pkey = ::if_indextoname(address.interface, name) ? partition_of(name, port.name) : std::nullopt;
    if (!pkey || request.count == ipc::SetAddresses::most) continue;
    now.push_back(address);
    request.addresses[request.count++] = booked(address, *pkey);
  }
  auto& before = told_[port.name];
  if (request.count == 0 || now == before) return;
  if (tell(request)) before = std::move(now);
}

bool AddressReport::tell(const ipc::SetAddresses::Request& request) const {
  const auto complain = [&](Errno error) {
    fmt::print(stderr, "softib-hosts: {}: softibd can't be told of addresses: {}\n", host_, error_text(error));
    return false;
  };
  auto client = ipc::Client::connect(folder_);
  if (!client) return complain(client.error());
  ::setsockopt((*client)->fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (auto attached = ipc::attach_as_tool(**client, "softib-hosts"); !attached) return complain(attached.error());
  if (auto set = (*client)->call<ipc::SetAddresses>(0, request); !set) return complain(set.error());
  return true;
}

}  // namespace softib::hosts
