// Turns the arguments and results of Device's methods into bytes and back, for the pipe between a test and its agent.
// Both ends are the same binary on the same machine, so plain structs travel as they lie in memory.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace conformance {

// A struct that holds vectors names its members: auto fields() { return std::tie(...); }
template <typename T>
concept HasFields = requires(T& value) {
  value.fields();
};

class Writer {
 public:
  template <typename T>
  void put(const T& value) {
    if constexpr (HasFields<T>) {
      std::apply([this](auto&... member) { (put(member), ...); }, const_cast<T&>(value).fields());
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      const auto* from = reinterpret_cast<const std::uint8_t*>(&value);
      bytes_.insert(bytes_.end(), from, from + sizeof(T));
    }
  }

  template <typename T>
  void put(const std::vector<T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) put(value);
  }

  void put(const std::string& text) { put(std::vector<char>(text.begin(), text.end())); }

  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

class Reader {
 public:
  explicit Reader(const std::vector<std::uint8_t>& bytes) : bytes_(bytes) {}

  template <typename T>
  T get() {
    T value{};
    take(value);
    return value;
  }

 private:
  template <typename T>
  void take(T& value) {
    if constexpr (HasFields<T>) {
      std::apply([this](auto&... member) { (take(member), ...); }, value.fields());
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      if (bytes_.size() - at_ < sizeof(T)) throw std::runtime_error("a message on the agent's pipe is too short");
      std::memcpy(static_cast<void*>(&value), bytes_.data() + at_, sizeof(T));
      at_ += sizeof(T);
    }
  }

  template <typename T>
  void take(std::vector<T>& values) {
    const auto count = get<std::uint64_t>();
    values.clear();
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(get<T>());
  }

  void take(std::string& text) {
    const auto letters = get<std::vector<char>>();
    text.assign(letters.begin(), letters.end());
  }

  const std::vector<std::uint8_t>& bytes_;
  std::size_t at_ = 0;
};

}  // namespace conformance
