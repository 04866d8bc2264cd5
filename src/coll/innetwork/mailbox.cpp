#include "coll/innetwork/mailbox.h"

#include <algorithm>

namespace softib::coll::innetwork {

namespace {

constexpr u32 fragment_magic = 0x3146'4153;  // "SAF1"
constexpr u32 fragment_header = 24;
constexpr auto kept_for = std::chrono::seconds(30);

}  // namespace

struct Mailbox::Fragment {
  Kind kind = Kind::question;
  u16 index = 0;
  u16 count = 0;
  u32 length = 0;
  u64 transaction = 0;
  std::size_t at = 0;
  std::span<const std::byte> data;
};

u64 Mailbox::ask(Correspondent peer, Bytes message, Time now) {
  const u64 transaction = next_++;
  send(peer, Kind::question, transaction, message);
  asked_[transaction] = {peer, std::move(message), 1, now + limits_.again};
  return transaction;
}

void Mailbox::answer(Correspondent peer, u64 transaction, const Bytes& message, Time now) {
  Known& known = known_[{peer, transaction, Kind::question}];
  known = {true, message, now};
  send(peer, Kind::answer, transaction, message);
}

void Mailbox::send(Correspondent peer, Kind kind, u64 transaction, const Bytes& message) {
  const std::size_t room = limits_.datagram_bytes - fragment_header;
  const std::size_t count = std::max<std::size_t>(1, (message.size() + room - 1) / room);
  for (std::size_t index = 0; index < count; ++index) {
    const std::size_t at = index * room;
    Bytes bytes;
    ByteWriter writer(bytes);
    writer.number(fragment_magic);
    writer.number(static_cast<u32>(kind));
    writer.number(static_cast<u16>(index));
    writer.number(static_cast<u16>(count));
    writer.number(static_cast<u32>(message.size()));
    writer.number(transaction);
    writer.bytes(std::span(message).subspan(at, std::min(room, message.size() - at)));
    out_.push_back({peer, std::move(bytes)});
  }
}

// Fragments of a message are as long as the longest datagram allows, all but the last; how long that is each side
// decides for itself, so a fragment tells its place by its own length or, as the last one, from the end.
std::optional<Mailbox::Fragment> Mailbox::parse(std::span<const std::byte> datagram) const {
  ByteReader reader(datagram);
  if (reader.number<u32>() != fragment_magic) return std::nullopt;
  const u32 kind = reader.number<u32>();
  Fragment fragment;
  fragment.index = reader.number<u16>();
  fragment.count = reader.number<u16>();
  fragment.length = reader.number<u32>();
  fragment.transaction = reader.number<u64>();
  if (!reader.ok() || kind < 1 || kind > 2 || fragment.index >= fragment.count || fragment.length > limits_.most_bytes)
    return std::nullopt;
  fragment.kind = static_cast<Kind>(kind);
  fragment.data = reader.rest();
  const bool last = fragment.index + 1 == fragment.count;
  if (fragment.data.size() > fragment.length || (fragment.data.empty() && fragment.length != 0)) return std::nullopt;
  fragment.at = last ? fragment.length - fragment.data.size() : fragment.index * fragment.data.size();
  if (fragment.at + fragment.data.size() > fragment.length) return std::nullopt;
  if (!last && fragment.data.size() < fragment.length / fragment.count) return std::nullopt;
  return fragment;
}

void Mailbox::receive(Correspondent from, std::span<const std::byte> datagram, Time now) {
  const std::optional<Fragment> fragment = parse(datagram);
  if (!fragment) return;
  const Key key{from, fragment->transaction, fragment->kind};
  if (is_wanted(key)) take(key, *fragment, now);
}

// Answers that nobody waits for and questions that are known are not. The latter's answer goes out again, once for each
// time that the question does.
bool Mailbox::is_wanted(const Key& key) {
  if (key.kind == Kind::answer) {
    const auto asked = asked_.find(key.transaction);
    return asked != asked_.end() && asked->second.peer == key.peer;
  }
  const auto known = known_.find(key);
  return known == known_.end() || known->second.answered;
}

void Mailbox::take(const Key& key, const Fragment& fragment, Time now) {
  if (!halves_.contains(key)) make_room(now);
  Half& half = halves_[key];
  if (half.there.empty()) half = {Bytes(fragment.length), std::vector<bool>(fragment.count), fragment.count, now};
  if (half.message.size() != fragment.length || half.there.size() != fragment.count || half.there[fragment.index])
    return;
  std::copy(fragment.data.begin(), fragment.data.end(),
            half.message.begin() + static_cast<std::ptrdiff_t>(fragment.at));
  half.there[fragment.index] = true;
  if (--half.missing != 0) return;
  Bytes message = std::move(half.message);
  halves_.erase(key);
  whole(key, std::move(message), now);
}

void Mailbox::whole(const Key& key, Bytes message, Time now) {
  if (key.kind == Kind::answer) {
    asked_.erase(key.transaction);
    events_.push_back({Event::Kind::answer, key.peer, key.transaction, std::move(message)});
    return;
  }
  Known& known = known_[key];
  if (known.answered) return send(key.peer, Kind::answer, key.transaction, known.answer);
  known.since = now;
  events_.push_back({Event::Kind::question, key.peer, key.transaction, std::move(message)});
}

template <typename Table>
void drop_oldest_of(Table& table) {
  const auto oldest = std::min_element(table.begin(), table.end(),
                                       [](const auto& a, const auto& b) { return a.second.since < b.second.since; });
  if (oldest != table.end()) table.erase(oldest);
}

void Mailbox::make_room(Time now) {
  std::erase_if(halves_, [now](const auto& entry) { return entry.second.since + kept_for < now; });
  std::erase_if(known_, [now](const auto& entry) { return entry.second.since + kept_for < now; });
  if (halves_.size() >= limits_.most_halves) drop_oldest_of(halves_);
  if (known_.size() >= limits_.most_known) drop_oldest_of(known_);
}

void Mailbox::on_time(Time now) {
  for (auto at = asked_.begin(); at != asked_.end();) {
    Asked& asked = at->second;
    if (asked.again > now) {
      ++at;
    } else if (asked.tries >= limits_.tries) {
      events_.push_back({Event::Kind::unanswered, asked.peer, at->first, {}});
      at = asked_.erase(at);
    } else {
      ++asked.tries;
      asked.again = now + limits_.again;
      send(asked.peer, Kind::question, at->first, asked.message);
      ++at;
    }
  }
}

std::optional<Mailbox::Event> Mailbox::next_event() {
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

std::optional<Datagram> Mailbox::next_datagram() {
  if (out_.empty()) return std::nullopt;
  Datagram datagram = std::move(out_.front());
  out_.pop_front();
  return datagram;
}

std::optional<Mailbox::Time> Mailbox::deadline() const {
  std::optional<Time> first;
  for (const auto& [transaction, asked] : asked_)
    if (!first || asked.again < *first) first = asked.again;
  return first;
}

}  // namespace softib::coll::innetwork
