// Queues of things that bring their own link, and queues told apart by stream. No memory is taken.
#pragma once

#include <array>

#include "coll/transport/transport.h"

namespace softib::coll {

// First in, first out. T has `next`, a pointer that a T* can be kept in.
template <typename T>
class Fifo {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  [[nodiscard]] T* front() const { return first_; }

  void push(T& it) {
    it.next = nullptr;
    if (first_ == nullptr) {
      first_ = &it;
    } else {
      last_->next = &it;
    }
    last_ = &it;
  }

  T* pop() {
    T* it = first_;
    if (it != nullptr) first_ = static_cast<T*>(it->next);
    return it;
  }

  // The first one that fits, taken out.
  template <typename Fits>
  T* take(const Fits& fits) {
    T* before = nullptr;
    for (T* it = first_; it != nullptr; before = it, it = static_cast<T*>(it->next)) {
      if (!fits(*it)) continue;
      T* after = static_cast<T*>(it->next);
      if (before == nullptr) {
        first_ = after;
      } else {
        before->next = after;
      }
      if (it == last_) last_ = before;
      return it;
    }
    return nullptr;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

// The first one of a stream, taken out.
template <typename T>
T* take_of(Fifo<T>& queue, Stream stream) {
  return queue.take([stream](const T& it) { return it.stream == stream; });
}

// Where a stream belongs in a table of 2^bits rows. Collectives count in the upper bits, lanes in the lower: a
// multiplication mixes both into the top.
[[nodiscard]] constexpr std::size_t row_of(Stream stream, unsigned bits) {
  return stream * 0x9e37'79b9'7f4a'7c15 >> (64 - bits);
}

// T has `stream` too. Things of one stream come out in the order in which they went in.
template <typename T>
class StreamTable {
 public:
  void push(T& it) { row(it.stream).push(it); }
  T* take(Stream stream) { return take_of(row(stream), stream); }
  // The first one of the stream that fits.
  template <typename Fits>
  T* take(Stream stream, const Fits& fits) {
    return row(stream).take([&](const T& it) { return it.stream == stream && fits(it); });
  }
  template <typename Body>
  void for_each(const Body& body) {
    for (const Fifo<T>& row : rows_)
      for (T* it = row.front(); it != nullptr; it = static_cast<T*>(it->next)) body(*it);
  }
  T* take_any() {
    for (Fifo<T>& row : rows_) {
      if (!row.empty()) return row.pop();
    }
    return nullptr;
  }
  [[nodiscard]] bool empty() const {
    for (const Fifo<T>& row : rows_) {
      if (!row.empty()) return false;
    }
    return true;
  }

 private:
  static constexpr u32 row_bits = 5;
  Fifo<T>& row(Stream stream) { return rows_[row_of(stream, row_bits)]; }

  std::array<Fifo<T>, 1U << row_bits> rows_{};
};

}  // namespace softib::coll
