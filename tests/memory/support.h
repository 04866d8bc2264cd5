// What the memory tests share: regions, patterns, the view that a peer has, and tests that run in a process of their
// own.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "hca/memory.h"

namespace softib::hca::testing {

inline constexpr u64 page = 4096;
inline constexpr u64 mebibyte = u64{1} << 20;

// Under a sanitizer all takes longer, and its malloc keeps freed blocks for a while, so what they cost is no measure.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

inline u64 address_of(const void* pointer) { return reinterpret_cast<u64>(pointer); }

inline std::unique_ptr<ProcessMemory> make_memory() {
  auto made = ProcessMemory::create();
  if (!made) throw std::runtime_error("no memory file");
  return std::move(*made);
}

// A mapping of the test's own, with the page before and the page behind left out of reach, so that it is a run of its
// own in the kernel's map.
class Region {
 public:
  explicit Region(u64 size, int protection = PROT_READ | PROT_WRITE, int flags = MAP_PRIVATE | MAP_ANONYMOUS,
                  int fd = -1)
      : size_(size) {
    outer_ = static_cast<char*>(::mmap(nullptr, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    data_ = static_cast<char*>(::mmap(outer_ + page, size, protection, flags | MAP_FIXED, fd, 0));
    if (data_ == MAP_FAILED) throw std::runtime_error("mmap");
  }
  ~Region() { ::munmap(outer_, size_ + 2 * page); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] char* data() const { return data_; }
  [[nodiscard]] u64 address() const { return address_of(data_); }
  [[nodiscard]] u64 size() const { return size_; }

 private:
  char* outer_;
  char* data_;
  u64 size_;
};

// Each word holds a value of its own that depends on the seed.
inline void fill(void* begin, u64 size, u64 seed) {
  auto* words = static_cast<u64*>(begin);
  for (u64 i = 0; i < size / 8; ++i) words[i] = (i + 1) * 0x9E3779B97F4A7C15 + seed;
}

// The index of the first word that is not what fill() wrote; -1 when all are.
inline i64 first_difference(const void* begin, u64 size, u64 seed) {
  const auto* words = static_cast<const u64*>(begin);
  for (u64 i = 0; i < size / 8; ++i) {
    if (words[i] != (i + 1) * 0x9E3779B97F4A7C15 + seed) return static_cast<i64>(i);
  }
  return -1;
}

inline bool all_zero(const void* begin, u64 size) {
  const auto* bytes = static_cast<const char*>(begin);
  return size == 0 || (bytes[0] == 0 && std::memcmp(bytes, bytes + 1, size - 1) == 0);
}

// What a peer sees that maps the memory file.
class PeerView {
 public:
  PeerView(const ProcessMemory& memory, u64 address, u64 size) : skip_(address % page), size_(size + skip_) {
    data_ =
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd(), static_cast<off_t>(address - skip_));
    if (data_ == MAP_FAILED) throw std::runtime_error("mmap of the memory file");
  }
  ~PeerView() { ::munmap(data_, size_); }
  PeerView(const PeerView&) = delete;
  PeerView& operator=(const PeerView&) = delete;
  [[nodiscard]] char* data() const { return static_cast<char*>(data_) + skip_; }

 private:
  u64 skip_;
  u64 size_;
  void* data_;
};

// Runs `body` in a child, for what would change this process (rights, limits, filters). Empty when it passed; else what
// it said.
inline std::string in_child(const std::function<std::string()>& body) {
  int line[2];
  if (::pipe(line) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = body();
    if (::write(line[1], text.data(), text.size()) < 0) ::_exit(2);
    ::_exit(text.empty() ? 0 : 1);
  }
  ::close(line[1]);
  std::string text;
  char buffer[512];
  for (ssize_t got; (got = ::read(line[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
  ::close(line[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return text + " killed by signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0 && text.empty()) return "exit status " + std::to_string(WEXITSTATUS(status));
  return text;
}

// One figure of /proc/self/status or a smaps file, in bytes.
inline u64 figure(const char* file, const char* tag) {
  u64 sum = 0;
  FILE* text = std::fopen(file, "r");
  if (!text) return 0;
  char line[512];
  while (std::fgets(line, sizeof line, text)) {
    if (std::strncmp(line, tag, std::strlen(tag)) == 0)
      sum += std::strtoull(line + std::strlen(tag), nullptr, 10) << 10;
  }
  std::fclose(text);
  return sum;
}

// Whether the fast way round is open here at all; some containers forbid userfaultfd.
bool can_hold_writers();

}  // namespace softib::hca::testing
