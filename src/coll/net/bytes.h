// Values as bytes on the wire, little-endian, and back, checked.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace softib::coll {

using Bytes = std::vector<std::byte>;

class ByteWriter {
 public:
  explicit ByteWriter(Bytes& to) : to_(to) {}

  template <typename T>
  void number(T value) {
    for (std::size_t i = 0; i < sizeof value; ++i)
      to_.push_back(static_cast<std::byte>(static_cast<u64>(value) >> 8 * i & 0xff));
  }
  void bytes(std::span<const std::byte> data) { to_.insert(to_.end(), data.begin(), data.end()); }
  // At most `most` characters of it; two bytes of length in front.
  void text(std::string_view text, std::size_t most) {
    text = text.substr(0, most);
    number(static_cast<u16>(text.size()));
    bytes(std::as_bytes(std::span(text)));
  }

 private:
  Bytes& to_;
};

// After the first thing that isn't there everything is 0, and ok() false.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> from) : from_(from) {}

  template <typename T>
  [[nodiscard]] T number() {
    u64 value = 0;
    const auto data = bytes(sizeof(T));
    for (std::size_t i = 0; i < data.size(); ++i) value |= static_cast<u64>(data[i]) << 8 * i;
    return static_cast<T>(value);
  }
  [[nodiscard]] std::span<const std::byte> bytes(std::size_t count) {
    ok_ = ok_ && count <= from_.size();
    if (!ok_) return {};
    const auto data = from_.first(count);
    from_ = from_.subspan(count);
    return data;
  }
  template <std::size_t count>
  [[nodiscard]] std::array<std::byte, count> array() {
    std::array<std::byte, count> value{};
    const auto data = bytes(count);
    if (!data.empty()) std::memcpy(value.data(), data.data(), count);
    return value;
  }
  [[nodiscard]] std::string text(std::size_t most) {
    const u16 size = number<u16>();
    ok_ = ok_ && size <= most;
    const auto data = bytes(ok_ ? size : 0);
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }
  [[nodiscard]] std::span<const std::byte> rest() { return bytes(from_.size()); }

  [[nodiscard]] bool ok() const { return ok_; }
  // Everything was there, and nothing else.
  [[nodiscard]] bool complete() const { return ok_ && from_.empty(); }

 private:
  std::span<const std::byte> from_;
  bool ok_ = true;
};

}  // namespace softib::coll
