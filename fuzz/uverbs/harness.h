// Runs recorded or made-up calls against the command interpreter, with a fake softibd behind it and a window of made-up
// addresses as the program's memory: whatever the bytes say, they reach nothing else.
//
// An input is a row of calls on one command file:
//
//   u16 size, u16 length, u8 bytes[size]     the window's contents from its base on, and how long the write() is
//                                            (an ioctl's length stands in its own header)
#pragma once

#include <cstdio>
#include <cstdlib>

#include "kernel/world.h"

namespace softib::kernel::testing {

enum class Entry { ioctl, write };

struct CallHead {
  u16 size;
  u16 length;
};

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

inline void run_call(World& world, Entry entry, u16 length) {
  if (entry == Entry::ioctl) {
    int result = world.file->ioctl(Window::base);
    require(result <= 0 && result > -4096, "an ioctl gives 0 or an errno");
    return;
  }
  ssize_t result = world.file->write(Window::base, length);
  require(result == length || (result < 0 && result > -4096), "a write gives its length or an errno");
}

inline void run_input(const u8* data, size_t size, Entry entry) {
  constexpr int most_calls = 64;
  World world;
  world.make_objects();
  for (int calls = 0; calls < most_calls && size >= sizeof(CallHead); ++calls) {
    CallHead head;
    std::memcpy(&head, data, sizeof head);
    data += sizeof head;
    size -= sizeof head;
    size_t take = std::min<size_t>(head.size, size);
    world.window.reset();
    world.window.set(Window::base, data, take);
    data += take;
    size -= take;
    run_call(world, entry, head.length);
  }
  world.file.reset();
  const FakeProcessMemory& memory = world.daemon.fake_memory;
  require(memory.balanced, "no pages are given back twice");
  require(memory.shares.empty() && memory.charges.empty(), "the last close gives all pages back");
}

}  // namespace softib::kernel::testing
