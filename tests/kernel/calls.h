// Builds calls in a Window as programs do: ioctl methods attribute by attribute, commands as one structure.
#pragma once


#include <array>

#include "abi/uverbs.h"
#include "fake_parts.h"
#include "abi/rxe.h"
#include "kernel/interpreter.h"

namespace softib::kernel::testing {

class IoctlCall {
 public:
  static constexpr size_t max_attributes = 32;

  IoctlCall(Window& window, u16 object, u16 method) : window_(window) {
    at_ = window.room(sizeof(ib_uverbs_ioctl_hdr) + max_attributes * sizeof(ib_uverbs_attr));
    header.object_id = object;
    header.method_id = method;
    header.driver_id = RDMA_DRIVER_RXE;
  }

  IoctlCall& raw(const ib_uverbs_attr& attribute) {
    attributes.push_back(attribute);
    return *this;
  }
  IoctlCall& data(u16 id, u64 value, u16 length) {
    ib_uverbs_attr attribute{};
    attribute.attr_id = id;
    attribute.len = length;
    attribute.flags = UVERBS_ATTR_F_MANDATORY;
    attribute.data = value;
    return raw(attribute);
  }
  template <typename T>
  IoctlCall& in(u16 id, const T& value) {
    if constexpr (sizeof(T) <= sizeof(u64)) {
      u64 inside = 0;
      std::memcpy(&inside, &value, sizeof value);
      return data(id, inside, sizeof(T));
    } else {
      return data(id, window_.put(value), sizeof(T));
    }
  }
  IoctlCall& constant(u16 id, u64 value) { return data(id, value, sizeof(u64)); }
  IoctlCall& handle(u16 id, u64 value) { return data(id, value, 0); }
  IoctlCall& out(u16 id, u16 length) { return data(id, window_.room(length), length); }
  IoctlCall& driver_out(u16 length) { return out(UVERBS_ATTR_UHW_OUT, length); }

  // Where the program finds an answer, or the handle of what was made.
  [[nodiscard]] ib_uverbs_attr attribute(u16 id) const {
    for (size_t i = 0; i < attributes.size(); ++i) {
      if (attributes[i].attr_id != id) continue;
      return window_.get<ib_uverbs_attr>(at_ + sizeof header + i * sizeof(ib_uverbs_attr));
    }
    return {};
  }
  template <typename T>
  [[nodiscard]] T answer(u16 id) const {
    return window_.get<T>(attribute(id).data);
  }

  // Writes the call; gives its address.
  u64 store() {
    header.num_attrs = static_cast<u16>(attributes.size());
    if (!fixed_length) header.length = static_cast<u16>(sizeof header + attributes.size() * sizeof(ib_uverbs_attr));
    window_.set(at_, &header, sizeof header);
    window_.set(at_ + sizeof header, attributes.data(), attributes.size() * sizeof(ib_uverbs_attr));
    return at_;
  }
  int run(Interpreter& file) { return file.ioctl(store()); }

  std::vector<ib_uverbs_attr> attributes;
  bool fixed_length = false;

  // struct ib_uverbs_ioctl_hdr without its flexible array.
  struct Header {
    u16 length, object_id, method_id, num_attrs;
    u64 reserved1;
    u32 driver_id, reserved2;
  };
  static_assert(sizeof(Header) == sizeof(ib_uverbs_ioctl_hdr));
  Header header{};

 private:
  Window& window_;
  u64 at_;
};

// A write command with its response and the provider's parts.
template <typename Request, typename Response>
class CommandCall {
 public:
  CommandCall(Window& window, u32 command, const Request& request, u16 driver_in = 0, u16 driver_out = 0)
      : window_(window),
        command_(command),
        request_size_(sizeof(Request)),
        response_size_(std::is_empty_v<Response> ? 0 : sizeof(Response)),
        driver_in_(driver_in),
        driver_out_(driver_out) {
    std::memcpy(request_.data(), &request, sizeof request);
    response_at_ = window.room(response_size_ + driver_out + 16);
  }

  CommandCall& request_size(u16 size) {
    request_size_ = size;
    return *this;
  }
  CommandCall& response_size(u16 size) {
    response_size_ = size;
    return *this;
  }

  // By the ioctl method that carries commands.
  int invoke(Interpreter& file) {
    IoctlCall call(window_, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    build_invoke(call);
    return call.run(file);
  }
  void build_invoke(IoctlCall& call) {
    set_response();
    call.constant(UVERBS_ATTR_WRITE_CMD, command_);
    u64 at = window_.room(request_size_ + driver_in_);
    window_.set(at, request_.data(), std::min<size_t>(request_size_, request_.size()));
    if (request_size_ <= sizeof(u64)) {
      call.data(UVERBS_ATTR_CORE_IN, window_.get<u64>(at), request_size_);
    } else {
      call.data(UVERBS_ATTR_CORE_IN, at, request_size_);
    }
    if (response_size_) call.data(UVERBS_ATTR_CORE_OUT, response_at_, response_size_);
    if (driver_in_) call.data(UVERBS_ATTR_UHW_IN, driver_data, driver_in_);
    if (driver_out_) call.data(UVERBS_ATTR_UHW_OUT, response_at_ + response_size_, driver_out_);
  }

  // By write().
  ssize_t write(Interpreter& file) {
    std::vector<u8> bytes = build_write();
    u64 at = window_.put(bytes.data(), bytes.size());
    return file.write(at, bytes.size());
  }
  std::vector<u8> build_write() {
    set_response();
    return command_ & IB_USER_VERBS_CMD_FLAG_EXTENDED ? build_extended() : build_plain();
  }

  [[nodiscard]] Response response() const { return window_.get<Response>(response_at_); }
  template <typename T>
  [[nodiscard]] T driver_response() const {
    return window_.get<T>(response_at_ + response_size_);
  }
  [[nodiscard]] u64 response_at() const { return response_at_; }

  u64 driver_data = 0;  // up to 8 bytes of the provider's input

 private:
  void set_response() {
    if constexpr (requires(Request r) { r.response; }) std::memcpy(request_.data(), &response_at_, sizeof response_at_);
  }

  std::vector<u8> build_plain() const {
    ib_uverbs_cmd_hdr header{command_, static_cast<u16>((sizeof header + request_size_ + driver_in_) / 4),
                             static_cast<u16>((response_size_ + driver_out_) / 4)};
    std::vector<u8> bytes(sizeof header + request_size_ + driver_in_);
    std::memcpy(bytes.data(), &header, sizeof header);
    append(bytes, sizeof header);
    return bytes;
  }

  std::vector<u8> build_extended() const {
    ib_uverbs_cmd_hdr header{command_, static_cast<u16>(request_size_ / 8), static_cast<u16>(response_size_ / 8)};
    ib_uverbs_ex_cmd_hdr more{};
    if (response_size_ || driver_out_) more.response = response_at_;
    more.provider_in_words = driver_in_ / 8;
    more.provider_out_words = driver_out_ / 8;
    std::vector<u8> bytes(sizeof header + sizeof more + request_size_ + driver_in_);
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, &more, sizeof more);
    append(bytes, sizeof header + sizeof more);
    return bytes;
  }

  void append(std::vector<u8>& bytes, size_t at) const {
    std::memcpy(bytes.data() + at, request_.data(), std::min<size_t>(request_size_, request_.size()));
    std::memcpy(bytes.data() + at + request_size_, &driver_data, std::min<size_t>(driver_in_, sizeof driver_data));
  }

  Window& window_;
  u32 command_;
  std::array<u8, sizeof(Request)> request_;  // as bytes: the kernel's structures end in flexible arrays
  u16 request_size_;
  u16 response_size_;
  u16 driver_in_;
  u16 driver_out_;
  u64 response_at_;
};

struct NoResponse {};

}  // namespace softib::kernel::testing
