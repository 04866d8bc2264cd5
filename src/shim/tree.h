// The part of a fabric that this process runs in: which host's tree stands for /sys and /dev. Read from the environment
// on first use; without SOFTIB_FABRIC_DIR and SOFTIB_HOST the shim passes everything on.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "base/types.h"
#include "shim/paths.h"

namespace softib::shim {

class Tree {
 public:
  // nullptr: no fabric, nothing is ours. Takes no memory; may be called before libc's constructors and inside malloc.
  static const Tree* find() {
    State state = state_.load(std::memory_order_acquire);
    if (state == State::off) return nullptr;
    return state == State::on ? &instance_ : look();
  }

  [[nodiscard]] std::string_view root() const { return {root_, root_length_}; }
  [[nodiscard]] std::string_view host() const { return root().substr(root().rfind('/') + 1); }
  [[nodiscard]] std::string_view folder() const { return {root_, root_length_ - host().size() - hosts.size()}; }
  [[nodiscard]] std::string_view fabric() const { return {fabric_, fabric_length_}; }  // its folder's last name
  [[nodiscard]] PathMap paths() const { return {root(), exists}; }

  // To be asked before the tree is looked at: where it isn't there, softibd makes it now. False: it can't be had, which
  // is told once.
  [[nodiscard]] bool ready() const;

 private:
  enum class State : u32 { unknown, off, on, looking };
  static constexpr std::string_view hosts = "/hosts/";

  static const Tree* look();
  static bool exists(const char* path);
  bool read_environment();
  bool set_root(std::string_view folder, std::string_view host);
  bool set_fabric(std::string_view folder);
  [[nodiscard]] bool is_there() const;

  static std::atomic<State> state_;
  static Tree instance_;

  char root_[max_root];
  size_t root_length_;
  char fabric_[256];
  size_t fabric_length_;
};

// A file of a sysfs tree without the newline at its end. Nothing if it can't be read.
Result<std::string> read_attribute(const std::string& path);

// Tells the user something once per process and text, whatever the program has made of its own streams.
void tell_once(std::atomic<bool>& told, std::string_view text);

}  // namespace softib::shim
