#include "hca/engine/buffers.h"

#include <algorithm>

namespace softib::hca {

namespace {

// A place in a list.
class Cursor {
 public:
  Cursor(const Buffers& buffers, u64 skip) : piece_(buffers.pieces), end_(buffers.pieces + buffers.count) {
    advance(skip);
  }
  [[nodiscard]] bool at_end() const { return piece_ == end_; }
  [[nodiscard]] u64 left_here() const { return piece_->length - offset_; }
  [[nodiscard]] MemoryRef part(u64 count) const { return piece_->part(offset_, count); }
  void advance(u64 count) {
    offset_ += count;
    while (piece_ != end_ && offset_ >= piece_->length) {
      offset_ -= piece_->length;
      ++piece_;
    }
  }

 private:
  const MemoryRef* piece_;
  const MemoryRef* end_;
  u64 offset_ = 0;
};

}  // namespace

bool add_sges(Context& context, Buffers& buffers, const rxe_sge* sges, u32 count, u32 pd, LocalUse use, u64 wanted) {
  for (u32 i = 0; i < count && buffers.total < wanted; ++i) {
    if (sges[i].length == 0) continue;
    if (!check_lkey(context, sges[i].lkey, pd, sges[i].addr, sges[i].length, use, buffers.next())) return false;
    buffers.added();
  }
  return true;
}

Result<void> transfer_pieces(Context& context, const Buffers& to, u64 skip, const Buffers& from, u64 length) {
  if (length == 0) return {};
  Cursor target(to, skip);
  Cursor source(from, 0);
  while (length > 0 && !target.at_end() && !source.at_end()) {
    u64 count = std::min({length, target.left_here(), source.left_here()});
    if (auto moved = context.memory.move(target.part(count), source.part(count)); !moved) return moved;
    target.advance(count);
    source.advance(count);
    length -= count;
  }
  return {};
}

}  // namespace softib::hca
