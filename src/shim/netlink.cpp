#include "shim/netlink.h"

#include <linux/netlink.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "abi/rdma_cm.h"
#include "shim/paths.h"

namespace softib::shim {

namespace {

// A reader with the smallest usual buffer (a page) must get whole datagrams.
constexpr size_t datagram_limit = 3500;

// rdma_nldev_attr value -> attribute, of those that requests carry.
class Attributes {
 public:
  static Result<Attributes> parse(std::span<const u8> bytes) {
    Attributes found;
    while (bytes.size() >= sizeof(nlattr)) {
      nlattr header;
      std::memcpy(&header, bytes.data(), sizeof header);
      if (header.nla_len < sizeof header || header.nla_len > bytes.size()) return fail(EINVAL);
      u16 type = header.nla_type & NLA_TYPE_MASK;
      if (type < found.values_.size())
        found.values_[type] = bytes.subspan(sizeof header, header.nla_len - sizeof header);
      bytes = bytes.subspan(std::min<size_t>(NLA_ALIGN(header.nla_len), bytes.size()));
    }
    return found;
  }

  [[nodiscard]] std::optional<u32> u32_of(u32 type) const {
    if (values_[type].size() < sizeof(u32)) return std::nullopt;
    u32 value;
    std::memcpy(&value, values_[type].data(), sizeof value);
    return value;
  }

  [[nodiscard]] std::string_view text_of(u32 type) const {
    auto* text = reinterpret_cast<const char*>(values_[type].data());
    return {text, text ? ::strnlen(text, values_[type].size()) : 0};
  }

  [[nodiscard]] bool has(u32 type) const { return values_[type].data() != nullptr; }

 private:
  std::array<std::span<const u8>, RDMA_NLDEV_ATTR_MAX> values_{};
};

class Message {
 public:
  Message(u16 type, u16 flags, const nlmsghdr& request, u32 port_id) {
    nlmsghdr header{0, type, flags, request.nlmsg_seq, port_id};
    raw(&header, sizeof header);
  }

  template <typename T>
  requires std::is_integral_v<T> Message& put(u16 attribute, T value) {
    return put_bytes(attribute, &value, sizeof value);
  }
  Message& put(u16 attribute, const std::string& text) { return put_bytes(attribute, text.c_str(), text.size() + 1); }

  Message& raw(const void* data, size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
    return *this;
  }

  std::string finish() {
    u32 length = static_cast<u32>(bytes_.size());
    std::memcpy(bytes_.data(), &length, sizeof length);
    return std::move(bytes_);
  }

 private:
  Message& put_bytes(u16 attribute, const void* data, size_t size) {
    nlattr header{static_cast<u16>(sizeof header + size), attribute};
    bytes_.append(reinterpret_cast<const char*>(&header), sizeof header);
    return raw(data, size);
  }

  std::string bytes_;
};

constexpr u16 message_type(u32 command) { return static_cast<u16>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)); }

using Devices = std::vector<NetlinkDevice>;

struct Request {
  const nlmsghdr& header;
  const Attributes& attributes;
  const Devices& devices;
  u32 port_id;

  [[nodiscard]] Message reply(u32 command, u16 flags = 0) const {
    return {message_type(command), flags, header, port_id};
  }
  [[nodiscard]] const NetlinkDevice* device() const {
    auto index = attributes.u32_of(RDMA_NLDEV_ATTR_DEV_INDEX);
    if (!index) return nullptr;
    auto found = std::ranges::find(devices, *index, &NetlinkDevice::index);
    return found == devices.end() ? nullptr : &*found;
  }
};

// The kernel also tells the device's capability bits here; the tree does not hold them.
std::string device_reply(const Request& request, const NetlinkDevice& device, u16 flags) {
  Message message = request.reply(RDMA_NLDEV_CMD_GET, flags);
  message.put(RDMA_NLDEV_ATTR_DEV_INDEX, device.index)
      .put(RDMA_NLDEV_ATTR_DEV_NAME, device.name)
      .put(RDMA_NLDEV_ATTR_PORT_INDEX, static_cast<u32>(device.ports.size()));
  if (!device.firmware.empty()) message.put(RDMA_NLDEV_ATTR_FW_VERSION, device.firmware);
  message.put(RDMA_NLDEV_ATTR_NODE_GUID, device.node_guid)
      .put(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, device.system_guid)
      .put(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, device.node_type)
      .put(RDMA_NLDEV_ATTR_DEV_DIM, u8{0});
  if (!device.ports.empty())
    message.put(RDMA_NLDEV_ATTR_DEV_PROTOCOL, std::string(device.ports.front().infiniband ? "ib" : "roce"));
  return message.finish();
}

std::string port_reply(const Request& request, const NetlinkDevice& device, const NetlinkPort& port, u16 flags) {
  Message message = request.reply(RDMA_NLDEV_CMD_PORT_GET, flags);
  message.put(RDMA_NLDEV_ATTR_DEV_INDEX, device.index)
      .put(RDMA_NLDEV_ATTR_DEV_NAME, device.name)
      .put(RDMA_NLDEV_ATTR_PORT_INDEX, port.number);
  if (port.infiniband) {
    message.put(RDMA_NLDEV_ATTR_CAP_FLAGS, port.capabilities);
    if (port.subnet_prefix) message.put(RDMA_NLDEV_ATTR_SUBNET_PREFIX, *port.subnet_prefix);
    message.put(RDMA_NLDEV_ATTR_LID, port.lid)
        .put(RDMA_NLDEV_ATTR_SM_LID, port.sm_lid)
        .put(RDMA_NLDEV_ATTR_LMC, port.lmc);
  }
  message.put(RDMA_NLDEV_ATTR_PORT_STATE, port.state).put(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, port.phys_state);
  if (port.net_device_index != 0)
    message.put(RDMA_NLDEV_ATTR_NDEV_INDEX, port.net_device_index).put(RDMA_NLDEV_ATTR_NDEV_NAME, port.net_device);
  return message.finish();
}

// What a command gives: the messages of the answer. With NLM_F_DUMP each is one part of a list.
using Replies = Result<std::vector<std::string>>;

Replies get_device(const Request& request) {
  const NetlinkDevice* device = request.device();
  if (!device) return fail(EINVAL);
  return std::vector{device_reply(request, *device, 0)};
}

Replies dump_devices(const Request& request) {
  std::vector<std::string> replies;
  for (const NetlinkDevice& device : request.devices) replies.push_back(device_reply(request, device, NLM_F_MULTI));
  return replies;
}

Replies get_port(const Request& request) {
  const NetlinkDevice* device = request.device();
  auto number = request.attributes.u32_of(RDMA_NLDEV_ATTR_PORT_INDEX);
  if (!device || !number) return fail(EINVAL);
  auto port = std::ranges::find(device->ports, *number, &NetlinkPort::number);
  if (port == device->ports.end()) return fail(EINVAL);
  return std::vector{port_reply(request, *device, *port, 0)};
}

Replies dump_ports(const Request& request) {
  const NetlinkDevice* device = request.device();
  if (!device) return fail(EINVAL);
  std::vector<std::string> replies;
  for (const NetlinkPort& port : device->ports) replies.push_back(port_reply(request, *device, port, NLM_F_MULTI));
  return replies;
}

// As the kernel's huge_encode_dev.
u64 encode_device(u32 major, u32 minor) { return (minor & 0xff) | (major << 8) | ((u64{minor} & ~0xffULL) << 12); }

// The host's: no device has one of its own.
Replies rdma_cm_device(const Request& request) {
  const DeviceNumber number = number_of({DeviceKind::rdma_cm, 0});
  Message message = request.reply(RDMA_NLDEV_CMD_GET_CHARDEV);
  message.put(RDMA_NLDEV_ATTR_CHARDEV, encode_device(number.major, number.minor))
      .put(RDMA_NLDEV_ATTR_CHARDEV_ABI, u64{RDMA_USER_CM_ABI_VERSION})
      .put(RDMA_NLDEV_ATTR_CHARDEV_NAME, std::string("rdma_cm"));
  return std::vector{message.finish()};
}

Replies get_character_device(const Request& request) {
  const Attributes& attributes = request.attributes;
  if (!attributes.has(RDMA_NLDEV_ATTR_CHARDEV_TYPE)) return fail(EINVAL);
  if (attributes.text_of(RDMA_NLDEV_ATTR_CHARDEV_TYPE) == "rdma_cm" && !attributes.has(RDMA_NLDEV_ATTR_DEV_INDEX))
    return rdma_cm_device(request);
  const NetlinkDevice* device = request.device();
  if (attributes.has(RDMA_NLDEV_ATTR_DEV_INDEX) ? !device : attributes.has(RDMA_NLDEV_ATTR_PORT_INDEX))
    return fail(EINVAL);
  // umad and issm: as a kernel answers that lacks the module.
  if (attributes.text_of(RDMA_NLDEV_ATTR_CHARDEV_TYPE) != "uverbs" || !device) return fail(EOPNOTSUPP);
  Message message = request.reply(RDMA_NLDEV_CMD_GET_CHARDEV);
  message.put(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, static_cast<u32>(RDMA_DRIVER_RXE))
      .put(RDMA_NLDEV_ATTR_CHARDEV, encode_device(device->major, device->minor))
      .put(RDMA_NLDEV_ATTR_CHARDEV_ABI, device->uverbs_abi)
      .put(RDMA_NLDEV_ATTR_CHARDEV_NAME, device->uverbs_name);
  return std::vector{message.finish()};
}

// Copy-on-fork: the child of a fork gets its own copy of registered memory (hca/memory.h), so libibverbs need not keep
// it out of the child.
Replies get_system(const Request& request) {
  Message message = request.reply(RDMA_NLDEV_CMD_SYS_GET);
  message.put(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, u8{1}).put(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, u8{1});
  return std::vector{message.finish()};
}

Replies not_kept(const Request&) { return fail(EOPNOTSUPP); }

struct Command {
  u32 number;
  Replies (*get)(const Request&);
  Replies (*dump)(const Request&);
};

// What is not in the table answers EINVAL, as in the kernel.
constexpr auto commands = std::to_array<Command>({
    {RDMA_NLDEV_CMD_GET, get_device, dump_devices},
    {RDMA_NLDEV_CMD_PORT_GET, get_port, dump_ports},
    {RDMA_NLDEV_CMD_SYS_GET, get_system, nullptr},
    {RDMA_NLDEV_CMD_GET_CHARDEV, get_character_device, nullptr},
    {RDMA_NLDEV_CMD_RES_GET, not_kept, not_kept},
});

Replies carry_out(const nlmsghdr& header, std::span<const u8> payload, u32 port_id, const Devices& devices) {
  if (RDMA_NL_GET_CLIENT(header.nlmsg_type) != RDMA_NL_NLDEV) return fail(EINVAL);
  auto command = std::ranges::find(commands, static_cast<u32>(RDMA_NL_GET_OP(header.nlmsg_type)), &Command::number);
  if (command == commands.end()) return fail(EINVAL);
  auto handler = (header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP ? command->dump : command->get;
  if (!handler) return fail(EINVAL);
  auto attributes = Attributes::parse(payload);
  if (!attributes) return fail(attributes.error());
  return handler({header, *attributes, devices, port_id});
}

std::string acknowledgement(const nlmsghdr& header, std::span<const u8> whole, u32 port_id, int error) {
  Message message(NLMSG_ERROR, error ? 0 : NLM_F_CAPPED, header, port_id);
  i32 value = -error;
  message.raw(&value, sizeof value);
  message.raw(whole.data(), error ? whole.size() : sizeof header);
  return message.finish();
}

// Parts of a list share datagrams as far as they fit; the end mark goes by itself.
void add_list(std::vector<std::string>& datagrams, std::vector<std::string> parts, const nlmsghdr& header,
              u32 port_id) {
  std::string current;
  for (std::string& part : parts) {
    if (!current.empty() && current.size() + part.size() > datagram_limit)
      datagrams.push_back(std::exchange(current, {}));
    current += part;
  }
  if (!current.empty()) datagrams.push_back(std::move(current));
  Message done(NLMSG_DONE, NLM_F_MULTI, header, port_id);
  i32 error = 0;
  datagrams.push_back(done.raw(&error, sizeof error).finish());
}

void answer_one(std::vector<std::string>& datagrams, const nlmsghdr& header, std::span<const u8> whole, u32 port_id,
                const Devices& devices) {
  int error = 0;
  bool dump = (header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
  if ((header.nlmsg_flags & NLM_F_REQUEST) && header.nlmsg_type >= NLMSG_MIN_TYPE) {
    auto replies = carry_out(header, whole.subspan(sizeof header), port_id, devices);
    if (replies && dump) return add_list(datagrams, std::move(*replies), header, port_id);
    if (replies)
      std::ranges::move(*replies, std::back_inserter(datagrams));
    else
      error = to_int(replies.error());
  }
  if (error || (header.nlmsg_flags & NLM_F_ACK)) datagrams.push_back(acknowledgement(header, whole, port_id, error));
}

}  // namespace

std::vector<std::string> answer_netlink(std::span<const u8> request, u32 port_id, const Devices& devices) {
  std::vector<std::string> datagrams;
  while (request.size() >= sizeof(nlmsghdr)) {
    nlmsghdr header;
    std::memcpy(&header, request.data(), sizeof header);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > request.size()) break;
    answer_one(datagrams, header, request.first(header.nlmsg_len), port_id, devices);
    request = request.subspan(std::min<size_t>(NLMSG_ALIGN(header.nlmsg_len), request.size()));
  }
  return datagrams;
}

}  // namespace softib::shim
