// What goes over the connections of the TCP transport: headers of one size, some with bytes of a message behind them.
//
//   +----------+----------+-----------+-----------+---------
//   |  kind 8  |  name 8  |  bytes 8  |  token 8  |  bytes of a message ...
//   +----------+----------+-----------+-----------+---------
//
//   kind      name              bytes                 token            behind it
//   eager     stream            of the message        -                the message
//   announce  stream            of the message        the sender's     -
//   pull      the sender's      -                     the receiver's   -
//   data      the receiver's    of this piece         -                a piece, in order
//   credit    -                 given back            -                -
//   bye       -                 -                     -                -
//
// Messages of a stream come in the order of their eager and announce headers. An announced message of no bytes is there
// with its announcement.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "base/types.h"

namespace softib::coll::tcp {

enum class Kind : u8 { eager = 1, announce, pull, data, credit, bye };

struct Header {
  Kind kind = Kind::bye;
  u64 name = 0;
  u64 bytes = 0;
  u64 token = 0;
};

inline constexpr std::size_t header_bytes = 32;
// Beside the kind: garbage is no header.
inline constexpr u64 wire_magic = 0x736f'6674'6962'0000;

// Little-endian.
[[nodiscard]] constexpr u64 wire_order(u64 value) {
  return std::endian::native == std::endian::little ? value : __builtin_bswap64(value);
}

[[nodiscard]] inline std::array<std::byte, header_bytes> emit(const Header& header) {
  const std::array<u64, 4> words{wire_order(wire_magic | static_cast<u8>(header.kind)), wire_order(header.name),
                                 wire_order(header.bytes), wire_order(header.token)};
  return std::bit_cast<std::array<std::byte, header_bytes>>(words);
}

// `from`: header_bytes bytes.
[[nodiscard]] inline std::optional<Header> parse(const std::byte* from) {
  std::array<u64, 4> words{};
  std::memcpy(words.data(), from, sizeof words);
  for (u64& word : words) word = wire_order(word);
  const u64 kind = words[0] ^ wire_magic;
  if (kind < static_cast<u64>(Kind::eager) || kind > static_cast<u64>(Kind::bye)) return std::nullopt;
  return Header{static_cast<Kind>(kind), words[1], words[2], words[3]};
}

// Messages up to this are sent at once, as long as the receiver has room for what it may not have asked for yet:
// `most_kept` for each peer, counted with `kept_overhead` for each message.
inline constexpr u64 most_eager = 32 << 10;
inline constexpr u64 most_kept = 1 << 20;
inline constexpr u64 kept_overhead = 96;
// Others go in such pieces, so that small messages of other streams get between. Whole elements, as sinks want them.
inline constexpr u64 most_piece = 256 << 10;
inline constexpr u64 element_bytes = 64;

}  // namespace softib::coll::tcp
