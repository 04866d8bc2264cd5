#include "daemon/objects/published_ways.h"

#include <spdlog/spdlog.h>

#include <cstring>

namespace softib::daemon {

// Ports are told where there is a choice of them: the one of a unicast address stands in the address vector.
PublishedWays::Words PublishedWays::words_of(const Way& way, ipc::Reach reach) {
  Words words;
  if (reach == ipc::Reach::listed) words = way.ports;
  const ipc::Way head{static_cast<u32>(words.size()), static_cast<u32>(way.there.size()),
                      static_cast<u32>(way.back.size())};
  words.insert(words.begin(), {head.port_count, head.there_count, head.back_count});
  words.insert(words.end(), way.there.begin(), way.there.end());
  words.insert(words.end(), way.back.begin(), way.back.end());
  return words;
}

u32 PublishedWays::publish(RouteOwner owner, const Way& way, ipc::Reach reach) {
  const Words words = words_of(way, reach);
  if (words.size() == sizeof(ipc::Way) / sizeof(u32)) {
    forget(owner);
    return 0;
  }
  auto [entry, fresh] = entries_.try_emplace(words, Entry{});
  if (fresh) {
    auto offset = world_.arena.allocate(words.size() * sizeof(u32));
    if (!offset) {
      spdlog::error("no memory for a way in the fabric: what it would do to packets is left out");
      entries_.erase(entry);
      forget(owner);
      return 0;
    }
    entry->second.offset = *offset;
    std::memcpy(world_.segment.arena + *offset, words.data(), words.size() * sizeof(u32));
  }
  ++entry->second.owners;
  forget(owner);
  owned_.emplace(owner, entry);
  return static_cast<u32>(entry->second.offset / ipc::page_size);
}

void PublishedWays::forget(RouteOwner owner) {
  const auto found = owned_.find(owner);
  if (found == owned_.end()) return;
  release(found->second);
  owned_.erase(found);
}

void PublishedWays::release(Entries::iterator entry) {
  if (--entry->second.owners) return;
  world_.free_later(entry->second.offset);
  entries_.erase(entry);
}

}  // namespace softib::daemon
