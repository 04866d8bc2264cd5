// What the workers of one session share: the device, memory that peers reach, and a shared receive queue.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>

#include "base/types.h"

namespace softib::kill {

inline constexpr u32 max_workers = 4;
inline constexpr u32 max_message = 64 * 1024;
inline constexpr u32 srq_depth_per_worker = 16;
inline constexpr u32 small_bytes = 320;

// In wr_id, as a failed completion tells little else. The lower bits are the slot, or the number of the request.
inline constexpr u64 receive_mark = 1ULL << 63;

// Ends the program with a message: the test can't go on.
[[noreturn]] void give_up(const char* what);
template <typename T>
T* must(T* object, const char* what) {
  if (object == nullptr) give_up(what);
  return object;
}
inline void must(int error, const char* what) {
  if (error == 0) return;
  errno = error < 0 ? errno : error;
  give_up(what);
}

// Registered memory that is given back in the destructor of its owner.
struct Region {
  u8* data = nullptr;
  ibv_mr* mr = nullptr;
  void* allocation = nullptr;
};

class Hca {
 public:
  explicit Hca(u32 workers);
  ~Hca();
  Hca(const Hca&) = delete;
  Hca& operator=(const Hca&) = delete;

  // Whole pages, which peers can map; or, `small`, a few odd bytes in the middle of the heap.
  [[nodiscard]] Region make_region(size_t size, bool small) const;
  static void drop_region(Region& region);

  void post_srq(u32 slot) const;
  [[nodiscard]] u8* srq_buffer(u32 slot) const { return srq_memory_.data + size_t{slot} * max_message; }

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_srq* srq = nullptr;
  ibv_port_attr port{};
  ibv_gid gid{};

 private:
  Region srq_memory_;
};

}  // namespace softib::kill
