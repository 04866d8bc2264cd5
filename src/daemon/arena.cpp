#include "daemon/arena.h"

#include <algorithm>
#include <iterator>

namespace softib::daemon {

Arena::Arena(u64 bytes, GiveBack give_back) : give_back_(std::move(give_back)) {
  u64 pages = bytes / page;
  if (pages > 1) gaps_.emplace(1, pages - 1);
}

Result<u64> Arena::allocate(u64 bytes) {
  if (bytes == 0) return fail(EINVAL);
  u64 pages = bytes / page + (bytes % page != 0);
  auto gap = find_fit(pages);
  if (gap == gaps_.end()) return fail(ENOMEM);
  auto [first, size] = *gap;
  gaps_.erase(gap);
  if (size > pages) gaps_.emplace(first + pages, size - pages);
  if (pages <= tracked) lowest_[pages] = first;
  runs_.emplace(first, pages);
  used_pages_ += pages;
  return first * page;
}

Arena::Runs::iterator Arena::find_fit(u64 pages) {
  auto gap = gaps_.lower_bound(pages <= tracked ? lowest_[pages] : lowest_[tracked]);
  while (gap != gaps_.end() && gap->second < pages) ++gap;
  return gap;
}

Result<void> Arena::free(u64 offset) {
  auto run = offset % page ? runs_.end() : runs_.find(offset / page);
  if (run == runs_.end()) return fail(EINVAL);
  auto [first, pages] = *run;
  runs_.erase(run);
  used_pages_ -= pages;
  if (give_back_) give_back_(first * page, pages * page);
  remember_gap(first, pages);
  return {};
}

void Arena::remember_gap(u64 first, u64 pages) {
  auto next = gaps_.lower_bound(first);
  if (next != gaps_.end() && next->first == first + pages) {
    pages += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == first) {
      first = before->first;
      pages += before->second;
      gaps_.erase(before);
    }
  }
  gaps_.emplace(first, pages);
  forget_below(pages, first);
}

void Arena::forget_below(u64 pages, u64 first) {
  for (u64 n = 1; n <= std::min(pages, tracked); ++n) lowest_[n] = std::min(lowest_[n], first);
}

u64 Arena::bytes_at(u64 offset) const {
  auto run = offset % page ? runs_.end() : runs_.find(offset / page);
  return run == runs_.end() ? 0 : run->second * page;
}

}  // namespace softib::daemon
