// bench_memory [MiB] [rounds]: the first registration of a buffer beside memcpy of it into fresh memory, taken in
// turns; medians. Then what a later registration of the same pages costs, and fork() with the buffer registered.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "hca/memory.h"

namespace {

using softib::u64;
using softib::hca::ProcessMemory;

enum class Pages { small, transparent_huge };

// Aligned to 2 MiB, so that huge pages are possible where they are asked for.
class Buffer {
 public:
  Buffer(u64 size, Pages pages) : outer_size_(size + alignment) {
    outer_ = static_cast<char*>(
        ::mmap(nullptr, outer_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (outer_ == MAP_FAILED) std::abort();
    const u64 begin = (reinterpret_cast<u64>(outer_) + alignment - 1) & ~(alignment - 1);
    data_ = reinterpret_cast<char*>(begin);
    ::madvise(data_, size, pages == Pages::small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
  }
  ~Buffer() { ::munmap(outer_, outer_size_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  [[nodiscard]] char* data() const { return data_; }
  [[nodiscard]] u64 address() const { return reinterpret_cast<u64>(data_); }

 private:
  static constexpr u64 alignment = u64{2} << 20;
  u64 outer_size_;
  char* outer_;
  char* data_;
};

template <typename Body>
double milliseconds(Body body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Figures {
  std::vector<double> fresh, warm, first, again, forked;
};

void fill(char* data, u64 size) {
  for (u64 i = 0; i < size; i += 8) std::memcpy(data + i, &i, sizeof i);
}

void must_share(ProcessMemory& memory, const Buffer& buffer, u64 size) {
  const auto shared = memory.share(buffer.address(), size, true);
  if (shared && shared->size() == size) return;
  std::fprintf(stderr, "the buffer was not put on the memory file\n");
  std::exit(1);
}

double time_fork(ProcessMemory& memory) {
  pid_t child = 0;
  const double spent = milliseconds([&] {
    memory.before_fork();
    child = ::fork();
    if (child != 0) return memory.after_fork_in_parent();
    memory.after_fork_in_child();
    ::_exit(0);
  });
  ::waitpid(child, nullptr, 0);
  return spent;
}

void one_round(u64 size, Pages pages, Figures& figures) {
  auto memory = ProcessMemory::create();
  if (!memory) std::exit(1);
  Buffer source(size, pages);
  fill(source.data(), size);
  {
    Buffer target(size, pages);
    figures.fresh.push_back(milliseconds([&] { std::memcpy(target.data(), source.data(), size); }));
    figures.warm.push_back(milliseconds([&] { std::memcpy(target.data(), source.data(), size); }));
  }
  figures.first.push_back(milliseconds([&] { must_share(**memory, source, size); }));
  constexpr int repeats = 100;
  figures.again.push_back(milliseconds([&] {
                            for (int i = 0; i < repeats; ++i) {
                              (*memory)->unshare(source.address(), size);
                              must_share(**memory, source, size);
                            }
                          }) /
                          repeats);
  figures.forked.push_back(time_fork(**memory));
}

void measure(const char* name, u64 size, int rounds, Pages pages) {
  Figures figures;
  for (int i = 0; i < rounds; ++i) one_round(size, pages, figures);
  const double first = median(figures.first);
  std::printf("%-36s %9.1f %9.1f %9.1f %8.2f %8.2f %10.1f %9.1f\n", name, median(figures.fresh), median(figures.warm),
              first, first / median(figures.fresh), first / median(figures.warm), median(figures.again) * 1000,
              median(figures.forked));
}

}  // namespace

int main(int count, char** values) {
  const u64 size = (count > 1 ? std::strtoull(values[1], nullptr, 10) : 1024) << 20;
  const int rounds = count > 2 ? std::atoi(values[2]) : 5;
  std::printf("%llu MiB, medians of %d rounds, milliseconds\n\n", static_cast<unsigned long long>(size >> 20), rounds);
  std::printf("%-36s %9s %9s %9s %8s %8s %10s %9s\n", "", "memcpy", "memcpy", "first", "first /", "first /", "again",
              "fork");
  std::printf("%-36s %9s %9s %9s %8s %8s %10s %9s\n", "", "to fresh", "to warm", "register", "fresh", "warm", "(us)",
              "");
  measure("4 KiB pages, one thread", size, rounds, Pages::small);
  measure("transparent huge pages, one thread", size, rounds, Pages::transparent_huge);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  measure("4 KiB pages, two threads", size, rounds, Pages::small);
  measure("transparent huge pages, two threads", size, rounds, Pages::transparent_huge);
  stop = true;
  other.join();
  return 0;
}
