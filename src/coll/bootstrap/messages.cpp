#include "coll/bootstrap/messages.h"

#include <fmt/format.h>

#include <algorithm>

namespace softib::coll {

namespace {

constexpr std::string_view id_magic = "SoftIBid";
constexpr u8 id_version = 2;
constexpr std::size_t most_host_bytes = 255;
constexpr u8 most_processor_words = 16;

void put_guest(ByteWriter& to, const Guest& guest) {
  to.number(guest.member.rank);
  to.text(guest.member.host, most_host_bytes);
  to.number(guest.member.host_key);
  to.number(guest.member.machine_key);
  to.number(guest.member.process);
  const auto words = std::min<std::size_t>(guest.member.processors.size(), most_processor_words);
  to.number(static_cast<u8>(words));
  for (std::size_t i = 0; i < words; ++i) to.number(guest.member.processors[i]);
  guest.listens.put(to);
}

std::optional<Guest> get_guest(ByteReader& from) {
  Guest guest;
  guest.member.rank = from.number<u32>();
  guest.member.host = from.text(most_host_bytes);
  guest.member.host_key = from.number<u64>();
  guest.member.machine_key = from.number<u64>();
  guest.member.process = from.number<i32>();
  const u8 words = from.number<u8>();
  if (words > most_processor_words) return std::nullopt;
  for (u8 i = 0; i < words; ++i) guest.member.processors.push_back(from.number<u64>());
  const auto address = Address::get(from);
  if (!address || !from.ok()) return std::nullopt;
  guest.listens = *address;
  guest.member.address = address->host();
  return guest;
}

std::size_t end_of_run(std::span<const u32> ranks, std::size_t first) {
  std::size_t last = first;
  while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
  return last;
}

}  // namespace

UniqueId MeetingPlace::emit() const {
  Bytes bytes;
  ByteWriter to(bytes);
  to.bytes(std::as_bytes(std::span(id_magic)));
  to.number(id_version);
  to.number(static_cast<u8>(kind));
  to.bytes(key);
  to.number(static_cast<u8>(addresses.size()));
  for (const Address& address : addresses) address.put(to);
  UniqueId id;
  std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
  return id;
}

std::optional<MeetingPlace> MeetingPlace::parse(const UniqueId& id) {
  ByteReader from(id.bytes);
  const auto magic = from.bytes(id_magic.size());
  if (!std::ranges::equal(magic, std::as_bytes(std::span(id_magic)))) return std::nullopt;
  const u8 version = from.number<u8>();
  const u8 kind = from.number<u8>();
  if (version != id_version || kind < 1 || kind > 2) return std::nullopt;
  MeetingPlace place{static_cast<Kind>(kind), {}, from.array<std::tuple_size_v<Key>>()};
  const u8 count = from.number<u8>();
  if (count < 1 || count > most_addresses) return std::nullopt;
  for (u8 i = 0; i < count; ++i) {
    const auto address = Address::get(from);
    if (!address) return std::nullopt;
    place.addresses.push_back(*address);
  }
  return place;
}

Bytes Hello::emit() const {
  Bytes bytes;
  ByteWriter to(bytes);
  to.bytes(key);
  to.number(ranks);
  put_guest(to, guest);
  to.number(came_by);
  to.number(static_cast<u8>(listens.size()));
  for (const auto& address : listens) {
    to.number(static_cast<u8>(address.has_value()));
    if (address) address->put(to);
  }
  return bytes;
}

std::optional<Hello> Hello::parse(std::span<const std::byte> body) {
  ByteReader from(body);
  Hello hello;
  hello.key = from.array<std::tuple_size_v<Key>>();
  hello.ranks = from.number<u32>();
  auto guest = get_guest(from);
  hello.came_by = from.number<u8>();
  const u8 count = from.number<u8>();
  if (count > MeetingPlace::most_addresses || hello.came_by >= MeetingPlace::most_addresses) return std::nullopt;
  for (u8 i = 0; i < count; ++i) {
    const bool listens = from.number<u8>() != 0;
    hello.listens.push_back(listens ? Address::get(from) : std::nullopt);
  }
  if (!guest || !from.complete() || hello.ranks > most_ranks || guest->member.rank >= hello.ranks) return std::nullopt;
  hello.guest = std::move(*guest);
  return hello;
}

Bytes Table::emit() const {
  Bytes bytes;
  ByteWriter to(bytes);
  to.number(static_cast<u32>(guests.size()));
  for (const Guest& guest : guests) put_guest(to, guest);
  return bytes;
}

std::optional<Table> Table::parse(std::span<const std::byte> body) {
  ByteReader from(body);
  const u32 count = from.number<u32>();
  Table table;
  for (u32 rank = 0; rank < count; ++rank) {
    auto guest = get_guest(from);
    if (!guest || guest->member.rank != rank) return std::nullopt;
    table.guests.push_back(std::move(*guest));
  }
  if (!from.complete() || count > most_ranks) return std::nullopt;
  return table;
}

Bytes Join::emit() const {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.bytes(key);
  writer.number(from);
  writer.number(to);
  return bytes;
}

std::optional<Join> Join::parse(std::span<const std::byte> body) {
  ByteReader reader(body);
  Join join;
  join.key = reader.array<std::tuple_size_v<Key>>();
  join.from = reader.number<u32>();
  join.to = reader.number<u32>();
  if (!reader.complete()) return std::nullopt;
  return join;
}

Bytes Reason::emit() const {
  Bytes bytes;
  ByteWriter to(bytes);
  to.number(static_cast<u8>(code));
  to.text(text, most_text_bytes);
  return bytes;
}

std::optional<Reason> Reason::parse(std::span<const std::byte> body) {
  ByteReader from(body);
  const u8 code = from.number<u8>();
  std::string text = from.text(most_text_bytes);
  if (!from.complete() || code == 0 || code >= static_cast<u8>(Code::in_progress)) return std::nullopt;
  return Reason{static_cast<Code>(code), std::move(text)};
}

Bytes Blame::emit() const {
  Bytes bytes;
  ByteWriter to(bytes);
  to.number(rank);
  to.number(collective);
  return bytes;
}

std::optional<Blame> Blame::parse(std::span<const std::byte> body) {
  ByteReader from(body);
  Blame blame;
  blame.rank = from.number<u32>();
  blame.collective = from.number<u64>();
  if (!from.complete()) return std::nullopt;
  return blame;
}

Bytes Gather::emit() const {
  Bytes bytes;
  bytes.reserve(sizeof number + blob.size());
  ByteWriter to(bytes);
  to.number(number);
  to.bytes(blob);
  return bytes;
}

std::optional<Gather> Gather::parse(std::span<const std::byte> body) {
  ByteReader from(body);
  const u64 number = from.number<u64>();
  if (!from.ok()) return std::nullopt;
  return Gather{number, from.rest()};
}

std::string names_of_ranks(std::span<const u32> ranks) {
  constexpr int most_runs = 16;
  std::vector<std::string> runs;
  for (std::size_t first = 0; first < ranks.size();) {
    const std::size_t last = end_of_run(ranks, first);
    runs.push_back(last == first ? fmt::format("{}", ranks[first]) : fmt::format("{}-{}", ranks[first], ranks[last]));
    first = last + 1;
  }
  if (runs.size() > most_runs) {
    runs.resize(most_runs);
    runs.emplace_back("others");
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < runs.size(); ++i) text += (i == 0 ? "" : i + 1 == runs.size() ? " and " : ", ") + runs[i];
  return text;
}

}  // namespace softib::coll
