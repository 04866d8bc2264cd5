#include "coll/comm/plan_cache.h"

#include <algorithm>

#include "coll/execute/run.h"

namespace softib::coll {

namespace {

u64 shape_hash(const Shape& shape, std::span<const u64> list) {
  const auto mix = [](u64 hash, u64 value) { return (hash ^ value) * 0x9e3779b97f4a7c15 + (hash >> 29); };
  u64 hash = mix(
      static_cast<u64>(shape.collective) << 16 | shape.element << 8 | (shape.in_place ? 2 : 0) | (shape.equal ? 1 : 0),
      shape.root);
  hash = mix(hash, shape.count);
  for (const u64 value : list) hash = mix(hash, value);
  return hash;
}

}  // namespace

Plan* PlanCache::look_up(const Shape& shape, std::span<const u64> list) {
  const auto [begin, end] = entries_.equal_range(shape_hash(shape, list));
  for (auto at = begin; at != end; ++at) {
    Entry& entry = *at->second;
    if (!(entry.shape == shape) || !std::equal(list.begin(), list.end(), entry.list.begin(), entry.list.end()))
      continue;
    entry.used = ++look_ups_;
    last_[static_cast<u8>(shape.collective)] = &entry;
    return entry.plan.get();
  }
  return nullptr;
}

Plan& PlanCache::add(const Shape& shape, std::span<const u64> list, std::unique_ptr<Plan> plan) {
  if (entries_.size() >= most_plans) make_room();
  auto entry = std::make_unique<Entry>(Entry{shape, {list.begin(), list.end()}, std::move(plan), ++look_ups_});
  Entry& added = *entry;
  last_[static_cast<u8>(shape.collective)] = &added;
  entries_.emplace(shape_hash(shape, list), std::move(entry));
  return *added.plan;
}

// The half that was used least lately goes, but for plans that run.
void PlanCache::make_room() {
  for (Entry* last : last_)
    if (last != nullptr) last->used = ++look_ups_;
  std::vector<u64> used;
  for (const auto& [hash, entry] : entries_) used.push_back(entry->used);
  std::nth_element(used.begin(), used.begin() + static_cast<std::ptrdiff_t>(used.size() / 2), used.end());
  const u64 limit = used[used.size() / 2];
  const auto goes = [limit, this](const auto& each) {
    const Entry* entry = each.second.get();
    const bool is_last = std::find(last_.begin(), last_.end(), entry) != last_.end();
    return entry->used < limit && entry->plan->active == 0 && !is_last;
  };
  std::erase_if(entries_, goes);
}

}  // namespace softib::coll
