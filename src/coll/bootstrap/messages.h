// What ranks say to the meeting and to each other, as frames (net/frames.h). Each parse() takes the body of a frame and
// gives nothing if it is no such message: what comes by a connection counts for nothing until its key was right.
//
//   rank -> meeting   hello      who I am, where I am reached; with the key
//   meeting -> rank   table      who all are, once all have come
//   rank -> rank      join       who I am, with the key; the higher rank connects to the lower one
//   rank -> meeting   ready      I am connected with all
//   meeting -> rank   go         so are all
//   rank -> meeting   give_up    I have waited long enough
//   meeting -> rank   refused    it won't be, and why
//   rank -> rank      gather, abort, blame, say, leave: afterwards
#pragma once

#include "coll/bootstrap/bootstrap.h"
#include "coll/net/address.h"
#include "coll/net/frames.h"

namespace softib::coll {

enum class MeetingMessage : u16 {
  hello = 1,
  table,
  join,
  ready,
  go,
  give_up,
  refused,
  gather,
  abort,
  blame,
  leave,
  say,
};

using Key = std::array<std::byte, 16>;

inline constexpr u32 most_ranks = 65536;
inline constexpr u64 most_stranger_bytes = 1024;  // of a hello or join
inline constexpr u64 most_blob_bytes = u64{1} << 30;
inline constexpr u64 most_frame_bytes = most_blob_bytes + 64;
inline constexpr u64 most_table_bytes = u64{most_ranks} * 1024;
inline constexpr std::size_t most_text_bytes = 512;

// What a unique id holds.
struct MeetingPlace {
  enum class Kind : u8 {
    made = 1,    // somebody listens there already
    agreed = 2,  // SOFTIB_COMM_ID: rank 0 will
  };
  static constexpr std::size_t most_addresses = 5;

  Kind kind = Kind::made;
  // At least one; all lead to the same meeting. They are tried in this order, as not every host reaches every network.
  std::vector<Address> addresses;
  Key key{};

  [[nodiscard]] UniqueId emit() const;
  [[nodiscard]] static std::optional<MeetingPlace> parse(const UniqueId& id);
};

// A member, and where it listens for the others.
struct Guest {
  Member member;
  Address listens;
};

struct Hello {
  Key key{};
  u32 ranks = 0;
  Guest guest;
  // Which of the meeting's addresses I reached, and where I would listen for ranks that come by the network of each of
  // them. If ranks reached different ones, all use the network of the last: the others aren't reached by everyone.
  u8 came_by = 0;
  std::vector<std::optional<Address>> listens{};

  [[nodiscard]] Bytes emit() const;
  [[nodiscard]] static std::optional<Hello> parse(std::span<const std::byte> body);
};

// In the order of ranks.
struct Table {
  std::vector<Guest> guests;

  [[nodiscard]] Bytes emit() const;
  [[nodiscard]] static std::optional<Table> parse(std::span<const std::byte> body);
};

struct Join {
  Key key{};
  u32 from = 0;
  u32 to = 0;

  [[nodiscard]] Bytes emit() const;
  [[nodiscard]] static std::optional<Join> parse(std::span<const std::byte> body);
};

// refused, give_up, abort.
struct Reason {
  Code code = Code::remote_error;
  std::string text;

  [[nodiscard]] Bytes emit() const;
  [[nodiscard]] static std::optional<Reason> parse(std::span<const std::byte> body);
};

struct Blame {
  u32 rank = 0;
  u64 collective = 0;

  [[nodiscard]] Bytes emit() const;
  [[nodiscard]] static std::optional<Blame> parse(std::span<const std::byte> body);
};

struct Gather {
  u64 number = 0;  // the first all_gather is 1
  std::span<const std::byte> blob;

  [[nodiscard]] Bytes emit() const;
  [[nodiscard]] static std::optional<Gather> parse(std::span<const std::byte> body);
};

[[nodiscard]] inline Bytes frame_of(MeetingMessage message, std::span<const std::byte> body = {}) {
  return make_frame(static_cast<u16>(message), body);
}

// For people: "ranks 1-4, 7 and 9".
[[nodiscard]] std::string names_of_ranks(std::span<const u32> ranks);

}  // namespace softib::coll
