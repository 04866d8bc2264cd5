// What lies in the memory that two ranks of a host share: a channel for each direction, in the receiver's memory file.
// Either side may die, or write nonsense, at any time: nothing here is a lock, and whoever reads a number checks it.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "coll/transport/transport.h"

namespace softib::coll::shm {

inline constexpr u64 cache_line = 64;
// Lines of one direction that only one side writes lie so far apart that prefetching doesn't tie them together.
inline constexpr u64 line_pair = 128;

inline constexpr u64 line_count = 128;
inline constexpr u64 inline_most = 48;            // bytes of a message within its line
inline constexpr u64 data_bytes = u64{64} << 10;  // for messages up to eager_most
inline constexpr u64 eager_most = u64{16} << 10;
inline constexpr u64 lend_least = u64{8} << 10;  // a copy of less is quicker than giving it back
// What may lie at the receiver without a receive. From there on messages are announced and stay with their sender.
inline constexpr u64 early_most = u64{1} << 20;
inline constexpr u64 chunk_count = 4;
inline constexpr u64 chunk_bytes = u64{64} << 10;
inline constexpr u64 chunks_at_once = 1;  // before the other direction has its turn
// From there on a sender writes into the receiver's arena itself, where both want it.
inline constexpr u64 push_least = u64{8} << 10;
// ... at one go: whoever gives a peer up may have to wait for that long.
inline constexpr u64 pushed_piece = u64{64} << 10;
// Of a message in place at one go, before others have their turn.
inline constexpr u64 fetched_at_once = u64{1} << 20;
// From there on the sender writes past its caches. Lines that one core has just written are slow to get for another one
// (some CPUs give a twentieth of the memory's rate); fetching them from memory or a shared cache is not.
inline constexpr u64 streamed_least = u64{4} << 10;

enum class LineKind : u8 {
  message = 1,       // the bytes are in the line, or next in the data area
  announcement = 2,  // of a message that stays where it is until the receiver wants it
  request = 3,       // the receiver of an announced message wants it in chunks
  finished = 4,      // the receiver of an announced message has read it
  place = 5,         // the receiver of an announced message wants it written to this place of its arena
  written = 6,       // an announced message is at that place
};

// The word of a line that is written last. A line is full when its turn is how many times the ring was gone round.
//
//   63                    32 31     24 23     16 15          0
//   +-----------------------+---------+---------+-------------+
//   |         turn          |    0    |  kind   |    bytes    |
//   +-----------------------+---------+---------+-------------+
struct Head {
  u32 turn = 0;
  LineKind kind = LineKind::message;
  u16 bytes = 0;  // of a message

  [[nodiscard]] constexpr u64 word() const {
    return static_cast<u64>(turn) << 32 | static_cast<u64>(kind) << 16 | bytes;
  }
  [[nodiscard]] static constexpr Head of(u64 word) {
    return {static_cast<u32>(word >> 32), static_cast<LineKind>(word >> 16 & 0xff), static_cast<u16>(word)};
  }
};

struct alignas(cache_line) Line {
  std::atomic<u64> head;
  u64 name;  // of messages and announcements the stream, else the announcement's token
  std::array<std::byte, inline_most> payload;
};
static_assert(sizeof(Line) == cache_line);

struct Announcement {
  static constexpr u64 nowhere = ~u64{0};
  u64 bytes = 0;
  u64 token = 0;        // the sender's
  u64 address = 0;      // in the sender's process
  u64 place = nowhere;  // in the sender's arena
  u64 push = 0;         // 1: the sender would write it itself
};
static_assert(sizeof(Announcement) <= inline_most);

struct alignas(cache_line) ChunkMark {
  std::atomic<u64> number;  // of the chunk that is in; counted from 1
};

// What the receiver has taken out, all counted from the beginning.
struct alignas(line_pair) Taken {
  std::atomic<u64> lines;
  std::atomic<u64> data;     // bytes of the data area
  std::atomic<u64> matched;  // cost of messages that have found their receive
  std::atomic<u64> chunks;
};

struct alignas(line_pair) Closed {
  std::atomic<u32> closed;  // the sender has given up; memory that it announced may hold anything
};

// Not 0: the sender is writing into the receiver's arena. It looks whether the receiver has given up after it has said
// so here, and the receiver looks here after it has given up: so one of them sees the other.
struct alignas(line_pair) Writing {
  std::atomic<u32> now;
};

struct Channel {
  Taken taken;    // written by the receiver
  Closed sender;  // and all that follows by the sender
  Writing writing;
  alignas(line_pair) std::array<Line, line_count> lines;
  alignas(line_pair) std::array<ChunkMark, chunk_count> marks;
  alignas(4096) std::array<std::byte, data_bytes> data;
  alignas(4096) std::array<std::array<std::byte, chunk_bytes>, chunk_count> chunks;
};
static_assert(std::is_standard_layout_v<Channel> && std::atomic<u64>::is_always_lock_free);
static_assert(sizeof(Channel) % 4096 == 0);
static_assert(eager_most * 2 <= data_bytes && eager_most < 1 << 16, "it fits wherever the last one ended");

// A message lies in one piece. Where the next one of so many bytes goes, if the data area is used up to `at`.
[[nodiscard]] constexpr u64 data_place(u64 at, u64 bytes) {
  const u64 left = data_bytes - at % data_bytes;
  return bytes <= left ? at : at + left;
}
[[nodiscard]] constexpr u64 whole_lines(u64 bytes) { return (bytes + cache_line - 1) / cache_line * cache_line; }

// Numbers of eight bytes don't pay for a call.
inline void copy_short(void* to, const void* from, u64 bytes) {
  if (bytes == 8)
    std::memcpy(to, from, 8);
  else if (bytes > 0)
    std::memcpy(to, from, bytes);
}

// What a message may take of the receiver's memory while it has no receive.
[[nodiscard]] constexpr u64 cost_of(u64 bytes) { return bytes + 128; }

}  // namespace softib::coll::shm
