// A write command: the commands of the write() interface and of INVOKE_WRITE, whose request and response are structures
// at fixed places.
#pragma once

#include "abi/uverbs.h"
#include "kernel/buffers.h"

namespace softib::kernel {

class Command {
 public:
  Command(UserMemory& memory, Input in, Output out, DriverData driver)
      : memory_(memory), in_(in), out_(out), driver_(driver) {}

  // The request, which the program may give in a shorter or longer version: what is missing counts as zero, what is
  // beyond must be zero (EOPNOTSUPP). Not a Result<T>: the kernel's structures end in flexible arrays.
  template <Plain T>
  Result<void> read(T& into) const {
    auto done = in_.copy(memory_, &into, 0, std::min<u32>(in_.size(), sizeof(T)));
    return done ? in_.expect_zero(memory_, sizeof(T)) : done;
  }

  // Cut off where the program's buffer ends; what its buffer holds beyond the response is zeroed.
  template <Plain T>
  Result<void> respond(const T& response) {
    responded_ = true;
    return out_.copy_or_zero(memory_, &response, sizeof(T));
  }

  // What an extended command reports as response_length.
  template <Plain T>
  [[nodiscard]] u32 response_length() const {
    return std::min<u32>(out_.size, sizeof(T));
  }

  // For commands whose request or answer is no single structure.
  [[nodiscard]] const Input& in() const { return in_; }
  [[nodiscard]] const Output& out() const { return out_; }
  void mark_responded() { responded_ = true; }
  [[nodiscard]] bool responded() const { return responded_; }

  [[nodiscard]] const DriverData& driver() const { return driver_; }
  [[nodiscard]] UserMemory& memory() const { return memory_; }

 private:
  UserMemory& memory_;
  Input in_;
  Output out_;
  DriverData driver_;
  bool responded_ = false;
};

}  // namespace softib::kernel
