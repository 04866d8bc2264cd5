// Questions and answers of any length by datagrams, which may be lost, doubled or come in another order: cut into
// fragments, asked again until answered, answered again if asked again. No sockets and no clock inside: datagrams and
// time go in, datagrams and whole messages come out.
//
//    0        4      5         8       10      12       16             24
//   +--------+------+---------+-------+-------+--------+--------------+-----------+
//   | magic  | kind | 0       | index | count | length | transaction  | data      |
//   +--------+------+---------+-------+-------+--------+--------------+-----------+
//
// `length` is that of the whole message, `index` of `count` fragments is where this one's data belongs.
#pragma once

#include <chrono>
#include <compare>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "coll/net/bytes.h"

namespace softib::coll::innetwork {

// A UD queue pair.
struct Correspondent {
  u16 lid = 0;
  u32 pair = 0;
  auto operator<=>(const Correspondent&) const = default;
};

struct Datagram {
  Correspondent peer;
  Bytes bytes;
};

struct MailboxLimits {
  u32 datagram_bytes = 2048;  // header and all
  std::chrono::nanoseconds again = std::chrono::milliseconds(250);
  u32 tries = 8;
  u32 most_bytes = u32{1} << 20;  // of a message
  u32 most_halves = 64;           // messages that have arrived in part
  u32 most_known = 1024;          // answers kept for those who ask again
};

class Mailbox {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `seed` makes transactions of one life differ from those of the one before.
  explicit Mailbox(u64 seed, const MailboxLimits& limits = {}) : limits_(limits), next_(seed) {}

  // The transaction, by which the answer comes.
  u64 ask(Correspondent peer, Bytes message, Time now);
  void answer(Correspondent peer, u64 transaction, const Bytes& message, Time now);
  void forget(u64 transaction) { asked_.erase(transaction); }

  struct Event {
    enum class Kind : u8 {
      question,    // to be answered by answer()
      answer,      // of `transaction`
      unanswered,  // nobody answered it
    } kind = Kind::question;
    Correspondent peer;
    u64 transaction = 0;
    Bytes message;
  };
  void receive(Correspondent from, std::span<const std::byte> datagram, Time now);
  void on_time(Time now);
  [[nodiscard]] std::optional<Event> next_event();
  [[nodiscard]] std::optional<Datagram> next_datagram();
  // When on_time() has something to do.
  [[nodiscard]] std::optional<Time> deadline() const;

 private:
  enum class Kind : u8 { question = 1, answer = 2 };
  struct Asked {
    Correspondent peer;
    Bytes message;
    u32 tries = 1;
    Time again{};
  };
  struct Half {  // a message that is arriving
    Bytes message;
    std::vector<bool> there;
    u32 missing = 0;
    Time since{};
  };
  struct Known {  // a question that was heard
    bool answered = false;
    Bytes answer;
    Time since{};
  };
  struct Key {
    Correspondent peer;
    u64 transaction = 0;
    Kind kind = Kind::question;
    auto operator<=>(const Key&) const = default;
  };
  struct Fragment;

  void send(Correspondent peer, Kind kind, u64 transaction, const Bytes& message);
  [[nodiscard]] std::optional<Fragment> parse(std::span<const std::byte> datagram) const;
  void take(const Key& key, const Fragment& fragment, Time now);
  void whole(const Key& key, Bytes message, Time now);
  [[nodiscard]] bool is_wanted(const Key& key);
  void make_room(Time now);

  MailboxLimits limits_;
  u64 next_;
  std::map<u64, Asked> asked_;
  std::map<Key, Half> halves_;
  std::map<Key, Known> known_;
  std::deque<Event> events_;
  std::deque<Datagram> out_;
};

}  // namespace softib::coll::innetwork
