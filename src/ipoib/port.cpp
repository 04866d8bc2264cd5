#include "ipoib/port.h"

#include <endian.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace softib::ipoib {

void Unmap::operator()(u8* at) const { ::munmap(at, size); }

Result<Region> Region::make(ibv_pd* pd, std::size_t size) {
  void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return fail(errno);
  Region region;
  region.memory_ = std::unique_ptr<u8, Unmap>(static_cast<u8*>(at), Unmap{size});
  region.key_.reset(::ibv_reg_mr(pd, at, size, IBV_ACCESS_LOCAL_WRITE));
  if (!region.key_) return fail(errno);
  return region;
}

namespace {

struct DeviceList {
  int count = 0;
  ibv_device** devices = ::ibv_get_device_list(&count);
  DeviceList() = default;
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  ~DeviceList() {
    if (devices) ::ibv_free_device_list(devices);
  }
};

Told<Context> open_device(const std::string& name) {
  const DeviceList list;
  std::string known;
  for (int i = 0; i < list.count; ++i) {
    const char* other = ::ibv_get_device_name(list.devices[i]);
    if (name == other) {
      Context context(::ibv_open_device(list.devices[i]));
      if (!context) return complain(fmt::format("{}: can't be opened: {}", name, std::strerror(errno)));
      return context;
    }
    known += (known.empty() ? "" : ", ") + std::string(other);
  }
  if (known.empty()) return complain(fmt::format("no device '{}': there is no RDMA device at all here", name));
  return complain(fmt::format("no device '{}'; there are {}", name, known));
}

}  // namespace

Told<std::unique_ptr<Port>> Port::open(const std::string& device, u32 number) {
  auto context = open_device(device);
  if (!context) return tl::unexpected<Complaint>(context.error());
  auto port = std::make_unique<Port>();
  port->device_ = device;
  port->number_ = static_cast<u8>(number);
  port->context_ = std::move(*context);
  ibv_device_attr attributes{};
  if (::ibv_query_device(port->context(), &attributes) != 0 || number > attributes.phys_port_cnt)
    return complain(fmt::format("{} has no port {}", device, number));
  port->refresh();
  if (port->attributes_.link_layer == IBV_LINK_LAYER_ETHERNET)
    return complain(fmt::format("{} is an Ethernet port; IPoIB is for InfiniBand ones", port->name()));
  port->domain_.reset(::ibv_alloc_pd(port->context()));
  if (!port->domain_) return complain(fmt::format("{}: no protection domain: {}", device, std::strerror(errno)));
  return port;
}

std::string Port::name() const { return fmt::format("{}/{}", device_, number_); }

u64 Port::guid() const {
  u64 guid;
  std::memcpy(&guid, gid_.data() + 8, 8);
  return be64toh(guid);
}

void Port::refresh() {
  if (::ibv_query_port(context(), number_, &attributes_) != 0) attributes_.state = IBV_PORT_DOWN;
  ibv_gid gid;
  if (::ibv_query_gid(context(), number_, 0, &gid) == 0) std::copy_n(gid.raw, gid_.size(), gid_.begin());
}

namespace {

// 0: there is none.
u16 pkey_at(ibv_context* context, u32 port, u32 index) {
  __be16 wire = 0;
  return ::ibv_query_pkey(context, static_cast<u8>(port), static_cast<int>(index), &wire) == 0 ? be16toh(wire) : u16{0};
}

}  // namespace

u16 Port::first_pkey() const {
  constexpr u16 default_pkey = 0xffff, full = 0x8000;
  const u16 first = pkey_at(context(), number_, 0);
  return (first & 0x7fff) == 0 ? default_pkey : static_cast<u16>(first | full);
}

std::vector<u16> Port::pkeys() const {
  std::vector<u16> all;
  for (u16 i = 0; i < attributes_.pkey_tbl_len; ++i)
    if (const u16 pkey = pkey_at(context(), number_, i); pkey & 0x7fff) all.push_back(pkey);
  return all;
}

std::optional<u16> Port::pkey_index(u16 pkey) const {
  std::optional<u16> limited;
  for (u16 i = 0; i < attributes_.pkey_tbl_len; ++i) {
    const u16 there = pkey_at(context(), number_, i);
    if (((there ^ pkey) & 0x7fff) != 0) continue;
    if (there & 0x8000) return i;
    if (!limited) limited = i;
  }
  return limited;
}

Result<AddressHandle> Port::address_handle(const Route& route) const {
  ibv_ah_attr attributes{};
  attributes.dlid = route.lid;
  attributes.sl = route.sl;
  attributes.static_rate = route.rate;
  attributes.port_num = number_;
  if (route.is_group) {
    attributes.is_global = 1;
    std::copy(route.gid.begin(), route.gid.end(), attributes.grh.dgid.raw);
    attributes.grh.flow_label = route.flow_label;
    attributes.grh.hop_limit = route.hop_limit;
    attributes.grh.traffic_class = route.traffic_class;
  }
  AddressHandle handle(::ibv_create_ah(domain(), &attributes));
  if (!handle) return fail(errno);
  return handle;
}

void Port::watch(Loop& loop, std::function<void(ibv_event_type)> changed) {
  changed_ = std::move(changed);
  const int fd = context_->async_fd;
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  loop.watch(fd, [this] { take_events(); });
}

void Port::take_events() {
  ibv_async_event event;
  while (::ibv_get_async_event(context(), &event) == 0) {
    const ibv_event_type type = event.event_type;
    const bool of_port = type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_LID_CHANGE ||
                         type == IBV_EVENT_PKEY_CHANGE || type == IBV_EVENT_SM_CHANGE ||
                         type == IBV_EVENT_CLIENT_REREGISTER || type == IBV_EVENT_GID_CHANGE;
    const bool ours = (of_port && event.element.port_num == number_) || type == IBV_EVENT_DEVICE_FATAL;
    ::ibv_ack_async_event(&event);
    if (ours) changed_(type);
  }
}

bool is_there(const std::string& device) {
  const DeviceList list;
  return std::any_of(list.devices, list.devices + list.count,
                     [&](ibv_device* one) { return device == ::ibv_get_device_name(one); });
}

std::vector<ListedPort> list_ports() {
  const DeviceList list;
  std::vector<ListedPort> ports;
  for (int i = 0; i < list.count; ++i) {
    const Context context(::ibv_open_device(list.devices[i]));
    ibv_device_attr device{};
    if (!context || ::ibv_query_device(context.get(), &device) != 0) continue;
    for (u32 number = 1; number <= device.phys_port_cnt; ++number) {
      ibv_port_attr port{};
      if (::ibv_query_port(context.get(), static_cast<u8>(number), &port) != 0) continue;
      if (port.link_layer == IBV_LINK_LAYER_ETHERNET) continue;
      ports.push_back({::ibv_get_device_name(list.devices[i]), number});
    }
  }
  std::sort(ports.begin(), ports.end());
  return ports;
}

}  // namespace softib::ipoib
