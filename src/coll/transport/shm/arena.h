// Memory that all ranks of a host can read in place: what Communicator::allocate() gives. Each process has an arena, a
// sparse memory file that it cuts into blocks; peers get its descriptor once, when they are connected, and map what
// they are told of when they first need it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "coll/error.h"
#include "coll/transport/shm/memory_file.h"

namespace softib::coll::shm {

class Arena {
 public:
  // As large as the machine's memory unless told otherwise; it takes none before blocks are allocated.
  [[nodiscard]] static Outcome<std::shared_ptr<Arena>> create(u64 capacity = 0);

  // Zeroed, page-aligned, and there: touching it never fails for want of memory. Blocks from 2 MiB on lie in huge pages
  // where the system allows. Errors: no memory, arena full.
  [[nodiscard]] Outcome<void*> allocate(u64 bytes);
  // False if no block begins there.
  bool free(void* memory);

  // Where in the file these bytes are; nothing if they are not all in one block.
  [[nodiscard]] std::optional<u64> place_of(const void* memory, u64 bytes) const;
  // For memory of a block that a peer may still write to, who can't be told to stop: what is written there in the file
  // from now on isn't seen here. The pages keep what they hold, other ranks reach them no more, and the block's place
  // in the file isn't used again. Without memory for that nothing happens.
  void detach(void* memory, u64 bytes);
  [[nodiscard]] int descriptor() const { return file_.get(); }
  [[nodiscard]] u64 capacity() const { return mapping_.size(); }
  [[nodiscard]] u64 allocated() const;  // bytes, whole pages

 private:
  Arena(Fd file, Mapping mapping);
  [[nodiscard]] bool is_detached(u64 offset, u64 bytes) const;

  Fd file_;
  Mapping mapping_;
  mutable std::mutex lock_;
  std::map<u64, u64> free_;    // length by offset; neighbours are joined
  std::map<u64, u64> blocks_;  // in use
  std::map<u64, u64> detached_;
};

// A peer's arena, as far as it was needed. It can be written to as well, where the peer has asked for that.
class PeerArena {
 public:
  PeerArena() = default;
  // nullopt: the file might shrink under its users.
  [[nodiscard]] static std::optional<PeerArena> of(Fd file);

  // The bytes at an offset of the file. Valid as long as this object. nullptr: not within the file, or no address
  // space left for it.
  [[nodiscard]] std::byte* at(u64 place, u64 bytes);

 private:
  // Pages are mapped so many bytes at once: one by one, as they are first touched, costs as much as copying them.
  static constexpr u64 window_bytes = u64{2} << 20;

  [[nodiscard]] bool map(u64 end);
  void populate(u64 window);

  Fd file_;
  u64 size_ = 0;
  std::vector<Mapping> mappings_;  // the last one is the longest; earlier ones may still be in use
  std::vector<bool> populated_;    // by window of the last one
};

}  // namespace softib::coll::shm
