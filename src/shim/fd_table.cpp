#include "shim/fd_table.h"

#include <new>

namespace softib::shim {

FdTable::Slot* FdTable::existing(int fd) const {
  auto index = static_cast<u32>(fd);
  if (index >= limit) return nullptr;
  Chunk* chunk = chunks_[index / chunk_size].load(std::memory_order_acquire);
  return chunk ? &(*chunk)[index % chunk_size] : nullptr;
}

FdTable::Slot* FdTable::slot(int fd) {
  auto index = static_cast<u32>(fd);
  if (index >= limit) return nullptr;
  if (auto hook = first_use_.exchange(nullptr, std::memory_order_acq_rel)) hook();
  auto& place = chunks_[index / chunk_size];
  if (!place.load(std::memory_order_acquire)) {
    auto* made = new (std::nothrow) Chunk{};
    if (!made) return nullptr;
    Chunk* expected = nullptr;
    if (!place.compare_exchange_strong(expected, made, std::memory_order_acq_rel)) delete made;
  }
  int highest = end_.load(std::memory_order_relaxed);
  while (highest <= fd && !end_.compare_exchange_weak(highest, fd + 1, std::memory_order_acq_rel)) {
  }
  return existing(fd);
}

File* FdTable::drop(File* file) { return file && --file->references_ == 0 ? file : nullptr; }

File* FdTable::replace(Slot& slot, FdClass kind, File* file) {
  if (file) ++file->references_;
  return drop(decode(slot.exchange(encode(kind, file), std::memory_order_acq_rel)).file);
}

bool FdTable::set(int fd, FdClass kind, std::unique_ptr<File>& file) {
  Slot* place = slot(fd);
  if (!place) return false;
  std::unique_lock guard(mutex_);
  File* gone = replace(*place, kind, file.release());
  guard.unlock();
  retire(gone);
  return true;
}

bool FdTable::mark(int fd, FdClass kind) {
  std::unique_ptr<File> none;
  return set(fd, kind, none);
}

void FdTable::clear(int fd) {
  Slot* place = existing(fd);
  if (!place || place->load(std::memory_order_acquire) == 0) return;
  std::unique_lock guard(mutex_);
  File* gone = replace(*place, FdClass::none, nullptr);
  guard.unlock();
  retire(gone);
}

bool FdTable::copy(int from, int to) {
  Entry wanted = find(from);
  if (wanted.kind == FdClass::none || wanted.kind == FdClass::own) {
    clear(to);
    return true;
  }
  Slot* place = slot(to);
  if (!place) return false;
  std::unique_lock guard(mutex_);
  wanted = find(from);  // again, now that it can't go away
  File* gone = replace(*place, wanted.kind, wanted.file);
  guard.unlock();
  retire(gone);
  return true;
}

FdTable::Pin FdTable::pin(int fd) {
  std::lock_guard guard(mutex_);
  Entry entry = find(fd);
  if (entry.file) ++entry.file->references_;
  return {*this, entry};
}

void FdTable::release(File* file) {
  std::unique_lock guard(mutex_);
  File* gone = drop(file);
  guard.unlock();
  retire(gone);
}

void FdTable::retire(File* file) {
  if (!file) return;
  file->closed();
  std::unique_ptr<File> oldest;
  std::lock_guard guard(retired_mutex_);
  if (!retired_) retired_ = new std::deque<std::unique_ptr<File>>;
  retired_->emplace_back(file);
  if (retired_->size() <= kept_after_close) return;
  oldest = std::move(retired_->front());
  retired_->pop_front();
}

void FdTable::forsake(int fd, FdClass now) {
  Slot* place = existing(fd);
  if (place) place->store(encode(now, nullptr), std::memory_order_release);
}

}  // namespace softib::shim
