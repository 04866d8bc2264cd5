#include "coll/comm/survivors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "coll/comm/patience.h"

namespace softib::coll {

namespace {

std::string hex_of(const UniqueId& id) {
  std::string text;
  for (const std::byte byte : id.bytes) text += fmt::format("{:02x}", static_cast<u8>(byte));
  return text;
}

std::optional<UniqueId> id_of(const std::string& hex) {
  UniqueId id;
  if (hex.size() != 2 * id.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < id.bytes.size(); ++i)
    id.bytes[i] = static_cast<std::byte>(std::strtoul(hex.substr(2 * i, 2).c_str(), nullptr, 16));
  return id;
}

}  // namespace

void Survivors::read_words() {
  for (const auto& [rank, words] : fate_.take_words()) {
    std::istringstream stream(words);
    std::string kind;
    u64 round = 0;
    stream >> kind >> round;
    if (kind == "id") stream >> ids_[{round, rank}];
    if (kind != "gone") continue;
    std::set<u32>& gone = said_[{round, rank}];
    for (u32 each = 0; stream >> each;) gone.insert(each);
  }
}

bool Survivors::listen(std::set<u32>* gone) {
  if (Clock::now() > end_) return false;
  const int descriptor = bootstrap_.descriptor();
  Patience::sleep({&descriptor, 1}, true, std::chrono::milliseconds(500));
  while (fate_.look()) continue;  // what ended the old communicator
  read_words();
  if (gone != nullptr) gone->insert(fate_.dead().begin(), fate_.dead().end());
  return true;
}

Error Survivors::late(u32 rank) const {
  return {Code::remote_error, fmt::format("{} has not come to shrink", text_of(bootstrap_.members()[rank]))};
}

// Until all who aren't gone have said their word of this round.
Outcome<void> Survivors::hear_round(std::set<u32>& gone) {
  for (u32 rank = 0; rank < bootstrap_.members().size();) {
    const auto said = said_.find({round_, rank});
    if (rank == rank_ || gone.contains(rank) || said != said_.end()) {
      if (said != said_.end()) gone.insert(said->second.begin(), said->second.end());
      ++rank;
    } else if (!listen(&gone)) {
      return tl::unexpected(late(rank));
    }
  }
  return {};
}

Outcome<std::vector<u32>> Survivors::agree(std::set<u32> gone, std::chrono::nanoseconds timeout) {
  end_ = Clock::now() + timeout;
  gone.insert(fate_.dead().begin(), fate_.dead().end());
  const auto ranks = static_cast<u32>(bootstrap_.members().size());
  while (true) {
    ++round_;
    const std::set<u32> mine = gone;
    bootstrap_.say(fmt::format("gone {} {}", round_, fmt::join(mine, " ")));
    if (auto heard = hear_round(gone); !heard) return tl::unexpected(heard.error());
    if (gone.contains(rank_))
      return refuse(Code::remote_error,
                    fmt::format("the others go on without {}", text_of(bootstrap_.members()[rank_])));
    bool same = true;
    std::vector<u32> left;
    for (u32 rank = 0; rank < ranks; ++rank) {
      if (mine.contains(rank)) continue;
      left.push_back(rank);
      const auto said = said_.find({round_, rank});
      same = same && (rank == rank_ || (said != said_.end() && said->second == mine));
    }
    if (same) return left;
  }
}

void Survivors::give_id(const UniqueId& id) { bootstrap_.say(fmt::format("id {} {}", round_, hex_of(id))); }

Outcome<UniqueId> Survivors::receive_id(u32 from) {
  while (true) {
    if (const auto id = ids_.find({round_, from}); id != ids_.end()) {
      if (const auto read = id_of(id->second)) return *read;
      return refuse(Code::internal_error, "an unreadable unique id");
    }
    if (fate_.dead().contains(from) || !listen(nullptr)) return tl::unexpected(late(from));
  }
}

}  // namespace softib::coll
