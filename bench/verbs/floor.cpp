// What the machine itself can do, the measure for everything else in bench/verbs:
//   hop     a 2-byte flag goes from one pinned process to another through shared memory; half a round trip, timed
//           round by round, as ib_write_lat reports it
//   memcpy  copies at the message sizes, in buffers of the size and with the strides that perftest uses for the same
//           message size, so that both meet the same caches
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace {

using u16 = std::uint16_t;
using u64 = std::uint64_t;

u64 monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}

// A round takes half a microsecond: reading the clock by a call would show in it. perftest reads the same counter.
u64 ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return monotonic_ns();
#endif
}

double ns_per_tick() {
  u64 start_ns = monotonic_ns(), start = ticks();
  while (monotonic_ns() - start_ns < 20'000'000) {
  }
  u64 end = ticks(), end_ns = monotonic_ns();
  return static_cast<double>(end_ns - start_ns) / static_cast<double>(end - start);
}

bool pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

double quantile(std::vector<double>& values, double q) {
  auto nth = values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

struct Options {
  int cores[2] = {0, 1};
  u64 rounds = 200'000;
  bool json = false;
  bool hop = false;
  std::vector<u64> sizes;
};

// -- hop

// Two lines apart: an adjacent-line prefetcher would otherwise tie the directions together.
struct Flag {
  alignas(128) std::atomic<u16> value;
};
struct Table {
  Flag ping;
  Flag pong;
};

void wait_for(const Flag& flag, u16 wanted) {
  while (flag.value.load(std::memory_order_acquire) != wanted) {
  }
}

[[noreturn]] void answer(Table& table, u64 rounds) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (u64 i = 1; i <= rounds; ++i) {
    wait_for(table.ping, static_cast<u16>(i));
    table.pong.value.store(static_cast<u16>(i), std::memory_order_release);
  }
  ::_exit(0);
}

std::vector<double> time_rounds(Table& table, u64 rounds, u64 warm_up) {
  double scale = ns_per_tick() / 2;
  std::vector<double> hops;
  hops.reserve(rounds);
  u64 before = ticks();
  for (u64 i = 1; i <= rounds; ++i) {
    table.ping.value.store(static_cast<u16>(i), std::memory_order_release);
    wait_for(table.pong, static_cast<u16>(i));
    u64 now = ticks();
    if (i > warm_up) hops.push_back(static_cast<double>(now - before) * scale);
    before = now;
  }
  return hops;
}

struct Hop {
  double median_ns;
  double p10_ns;
  double p99_ns;
};

std::optional<Hop> measure_hop(const Options& options) {
  void* memory = ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::nullopt;
  auto* table = new (memory) Table{};
  u64 warm_up = options.rounds / 10;
  u64 rounds = options.rounds + warm_up;
  // The child starts on its core: under a real-time policy it might otherwise never get past the waiting parent.
  if (!pin_to(options.cores[1])) return std::nullopt;
  pid_t child = ::fork();
  if (child < 0) return std::nullopt;
  if (child == 0) answer(*table, rounds);
  if (!pin_to(options.cores[0])) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return std::nullopt;
  }
  std::vector<double> hops = time_rounds(*table, rounds, warm_up);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::munmap(memory, sizeof(Table));
  return Hop{quantile(hops, 0.5), quantile(hops, 0.1), quantile(hops, 0.99)};
}

// -- memcpy

constexpr u64 cycle_buffer = 4096;  // perftest's: smaller messages walk through one page, larger ones stay in place
constexpr u64 stride_unit = 64;
constexpr u64 smallest = 64;
constexpr u64 largest = 8ULL << 20;
constexpr u64 batch_ns = 4'000'000;
constexpr int batches = 9;

class Buffer {
 public:
  explicit Buffer(u64 size) : bytes_(static_cast<char*>(std::aligned_alloc(4096, std::max(size, cycle_buffer)))) {
    if (bytes_) std::memset(bytes_.get(), 0x5a, std::max(size, cycle_buffer));
  }
  [[nodiscard]] char* at(u64 offset) const { return bytes_.get() + offset; }
  explicit operator bool() const { return bytes_ != nullptr; }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> bytes_;
};

u64 copy_batch(const Buffer& to, const Buffer& from, u64 size, u64 count) {
  u64 stride = size <= cycle_buffer / 2 ? (size + stride_unit - 1) / stride_unit * stride_unit : 0;
  u64 offset = 0;
  u64 start = monotonic_ns();
  for (u64 i = 0; i < count; ++i) {
    char* destination = to.at(offset);
    // The size passes through a register that the compiler knows nothing of: a call, as a work request makes it.
    u64 length = size;
    asm volatile("" : "+r"(length), "+r"(destination) : : "memory");
    std::memcpy(destination, from.at(offset), length);
    asm volatile("" : : "r"(destination) : "memory");
    offset += stride;
    if (offset + size > cycle_buffer) offset = 0;
  }
  return std::max<u64>(monotonic_ns() - start, 1);
}

struct Copy {
  u64 size;
  double mib_per_second;  // 2^20 bytes, the unit that perftest calls MB
};

std::optional<Copy> measure_copy(u64 size) {
  Buffer from(size), to(size);
  if (!from || !to) return std::nullopt;
  u64 count = 1;
  while (copy_batch(to, from, size, count) < batch_ns) count *= 2;
  std::vector<double> rates;
  for (int i = 0; i < batches; ++i) {
    u64 ns = copy_batch(to, from, size, count);
    rates.push_back(static_cast<double>(size * count) * 1e9 / static_cast<double>(ns) / (1 << 20));
  }
  return Copy{size, quantile(rates, 0.5)};
}

// -- the program

void print_text(const Options& options, const std::optional<Hop>& hop, const std::vector<Copy>& copies) {
  if (hop) {
    std::printf("one-way hop of a 2-byte flag, core %d to core %d: median %.1f ns, p10 %.1f ns, p99 %.1f ns\n",
                options.cores[0], options.cores[1], hop->median_ns, hop->p10_ns, hop->p99_ns);
  }
  if (!copies.empty()) std::printf("%10s %14s %10s\n", "memcpy [B]", "MB/s (2^20)", "GiB/s");
  for (const Copy& copy : copies) {
    std::printf("%10llu %14.0f %10.2f\n", static_cast<unsigned long long>(copy.size), copy.mib_per_second,
                copy.mib_per_second / 1024);
  }
}

void print_json(const std::optional<Hop>& hop, const std::vector<Copy>& copies) {
  std::printf("{");
  if (hop) {
    std::printf("\"hop_ns\": {\"median\": %.2f, \"p10\": %.2f, \"p99\": %.2f}, ", hop->median_ns, hop->p10_ns,
                hop->p99_ns);
  }
  std::printf("\"memcpy_mib_per_second\": {");
  const char* separator = "";
  for (const Copy& copy : copies) {
    std::printf("%s\"%llu\": %.1f", separator, static_cast<unsigned long long>(copy.size), copy.mib_per_second);
    separator = ", ";
  }
  std::printf("}}\n");
}

bool take_value(Options& options, std::string_view name, const char* value) {
  if (name == "--cores") return std::sscanf(value, "%d,%d", &options.cores[0], &options.cores[1]) == 2;
  u64 number = std::strtoull(value, nullptr, 10);
  if (name == "--rounds") options.rounds = number;
  if (name == "--memcpy") options.sizes.push_back(number);
  return number > 0 && (name == "--rounds" || name == "--memcpy");
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (argument == "--json") {
      options.json = true;
    } else if (argument == "--hop") {
      options.hop = true;
    } else if (i + 1 >= argc || !take_value(options, argument, argv[++i])) {
      return std::nullopt;
    }
  }
  if (!options.hop && options.sizes.empty()) {
    options.hop = true;
    for (u64 size = smallest; size <= largest; size *= 2) options.sizes.push_back(size);
  }
  if (options.cores[0] == options.cores[1] || options.rounds < 10) return std::nullopt;
  return options;
}

constexpr const char* usage =
    "usage: bench_floor [--hop] [--memcpy SIZE]... [--cores A,B] [--rounds N] [--json]\n"
    "Measures what is named: the hop between two different cores, copies of SIZE bytes; everything when nothing is.\n";

int complain(const char* what) {
  std::fprintf(stderr, "bench_floor: %s: %s\n", what, std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<Options> options = parse(argc, argv);
  if (!options) {
    std::fputs(usage, stderr);
    return 2;
  }
  ::alarm(120);  // should the other process die, this one would wait for its flag for ever
  if (!pin_to(options->cores[0])) return complain("pinning to the first core");
  std::optional<Hop> hop;
  if (options->hop) {
    hop = measure_hop(*options);
    if (!hop) return complain("hop between the cores");
  }
  std::vector<Copy> copies;
  for (u64 size : options->sizes) {
    std::optional<Copy> copy = measure_copy(size);
    if (!copy) return complain("memcpy buffers");
    copies.push_back(*copy);
  }
  if (options->json) {
    print_json(hop, copies);
  } else {
    print_text(*options, hop, copies);
  }
  return 0;
}
