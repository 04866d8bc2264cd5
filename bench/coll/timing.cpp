// Times collectives of one library, as nccl-tests does: warm-up, a barrier, then a number of operations one after the
// other, whose time is divided by their number; of several such batches the median, or a single one if it is long. A
// rank's time begins when it leaves the barrier; the slowest rank's counts.
//
//   PROGRAM [--collectives NAME,...] [--sizes BYTES,...] [--placement out|in|both] [--memory ordinary|allocated]
//           [--seconds S] [--no-pin] [--rank R --ranks N --meeting FOLDER [--interface NAME]]
//
// Rank 0 prints "coll COLLECTIVE out|in BYTES OPERATIONS SECONDS WRONG" for each. BYTES is the larger one of a rank's
// buffers. Sizes that don't divide by the ranks are left out. WRONG counts elements of one more operation, which is
// checked: all of them up to 1 MiB, beyond that one in 245.
//
// Each rank's main thread is pinned to a core of its own, unless there are more ranks than cores: whoever starts the
// ranks should not bind them. Threads of the library go where the system likes.
#include "timing.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

namespace softib::bench {

void die(std::string_view why) {
  std::fprintf(stderr, "coll: %.*s\n", static_cast<int>(why.size()), why.data());
  std::exit(1);
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::string_view, 6> collective_names{"all_reduce", "all_gather", "reduce_scatter",
                                                           "alltoall",   "broadcast",  "copy"};

struct Options {
  std::vector<Collective> collectives{Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                      Collective::all_to_all, Collective::broadcast};
  std::vector<std::size_t> sizes{8, 1024, 65536, 1 << 20, 16 << 20};
  std::vector<Placement> placements{Placement::out, Placement::in};
  Memory memory = Memory::ordinary;
  double seconds = 0.05;  // of measuring, about, for each row
  bool pin = true;
  Place place;
};

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    words.push_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return words;
}

std::size_t number_from(std::string_view word) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || end != word.data() + word.size()) die("not a number: " + std::string(word));
  return number;
}

std::vector<std::size_t> sizes_from(std::string_view list) {
  std::vector<std::size_t> sizes;
  for (const std::string_view word : split(list)) {
    sizes.push_back(number_from(word));
    if (sizes.back() < sizeof(float)) die("a size is at least 4 bytes");
  }
  return sizes;
}

std::vector<Collective> collectives_from(std::string_view list) {
  std::vector<Collective> collectives;
  for (const std::string_view word : split(list)) {
    const auto found = std::find(collective_names.begin(), collective_names.end(), word);
    if (found == collective_names.end()) die("unknown collective " + std::string(word));
    collectives.push_back(static_cast<Collective>(found - collective_names.begin()));
  }
  return collectives;
}

std::vector<Placement> placements_from(std::string_view word) {
  if (word == "out") return {Placement::out};
  if (word == "in") return {Placement::in};
  if (word == "both") return {Placement::out, Placement::in};
  die("--placement is out, in or both");
}

Memory memory_from(std::string_view word) {
  if (word == "ordinary") return Memory::ordinary;
  if (word == "allocated") return Memory::allocated;
  die("--memory is ordinary or allocated");
}

void set(Options& options, std::string_view name, std::string_view value) {
  if (name == "--collectives") {
    options.collectives = collectives_from(value);
  } else if (name == "--sizes") {
    options.sizes = sizes_from(value);
  } else if (name == "--placement") {
    options.placements = placements_from(value);
  } else if (name == "--memory") {
    options.memory = memory_from(value);
  } else if (name == "--seconds") {
    options.seconds = std::atof(std::string(value).c_str());
  } else if (name == "--rank") {
    options.place.rank = static_cast<int>(number_from(value));
  } else if (name == "--ranks") {
    options.place.ranks = static_cast<int>(number_from(value));
  } else if (name == "--meeting") {
    options.place.meeting = value;
  } else if (name == "--interface") {
    options.place.interface = value;
  } else {
    die("unknown option " + std::string(name));
  }
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--no-pin") {
      options.pin = false;
      continue;
    }
    if (i + 1 == argc) die(std::string(name) + " needs a value");
    set(options, name, argv[++i]);
  }
  return options;
}

void pin_to_own_core(int rank, int ranks) {
  const unsigned cores = std::thread::hardware_concurrency();
  if (static_cast<unsigned>(ranks) > cores) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(rank), &set);
  if (::sched_setaffinity(0, sizeof set, &set) < 0) die("can't pin a rank to a core");
}

// Small whole numbers, so that sums are exact in any order.
float given(int rank, std::size_t index) {
  return static_cast<float>((index % 61 + 1) * (static_cast<unsigned>(rank) + 1));
}

class Timing {
 public:
  Timing(Library& library, const Options& options)
      : library_(library), options_(options), ranks_(static_cast<std::size_t>(library.ranks())) {
    bytes_ = *std::max_element(options.sizes.begin(), options.sizes.end());
    in_ = take();
    out_ = take();
    for (std::size_t i = 0; i < bytes_ / sizeof(float); ++i) in_[i] = given(library_.rank(), i);
  }

  // The number of wrong elements.
  std::size_t run() {
    std::size_t wrong = 0;
    for (const Collective collective : options_.collectives)
      for (const std::size_t size : options_.sizes)
        for (const Placement placement : options_.placements)
          if (exists(collective, placement, size)) wrong += row(collective, placement, size);
    return wrong;
  }

 private:
  float* take() {
    void* memory = nullptr;
    if (options_.memory == Memory::allocated) {
      memory = library_.allocate(bytes_);
      if (memory == nullptr) die("this library gives out no memory of its own");
    } else {
      memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) die("no memory");
    }
    std::memset(memory, 0, bytes_);
    return static_cast<float*>(memory);
  }

  [[nodiscard]] static bool is_whole(Collective collective) {
    return collective != Collective::all_gather && collective != Collective::reduce_scatter &&
           collective != Collective::all_to_all;
  }

  [[nodiscard]] bool exists(Collective collective, Placement placement, std::size_t size) const {
    if (!is_whole(collective) && size % (ranks_ * sizeof(float)) != 0) return false;
    if (collective == Collective::broadcast) return placement == options_.placements.front();
    return placement == Placement::out || collective == Collective::all_reduce || collective == Collective::all_gather;
  }

  [[nodiscard]] Operation operation_of(Collective collective, Placement placement, std::size_t size) const {
    Operation operation{collective, placement, in_, out_, size / sizeof(float)};
    if (!is_whole(collective)) operation.count /= ranks_;
    if (collective == Collective::broadcast) operation.placement = Placement::in;
    if (operation.placement == Placement::in) operation.in = out_;
    if (collective == Collective::all_gather && placement == Placement::in) operation.in = out_ + own_block(operation);
    return operation;
  }

  [[nodiscard]] std::size_t own_block(const Operation& operation) const {
    return static_cast<std::size_t>(library_.rank()) * operation.count;
  }

  std::size_t row(Collective collective, Placement placement, std::size_t size) {
    const Operation operation = operation_of(collective, placement, size);
    std::memset(out_, 0, size);  // sums in place stay what they are
    library_.prepare(operation);
    const Measured measured = measure(operation);
    const std::size_t wrong = check(operation, size);
    if (library_.rank() == 0) {
      std::printf("coll %s %s %zu %zu %.9f %zu\n", collective_names[static_cast<std::size_t>(collective)].data(),
                  operation.placement == Placement::in ? "in" : "out", size, measured.operations, measured.seconds,
                  wrong);
      std::fflush(stdout);
    }
    return wrong;
  }

  struct Measured {
    std::size_t operations;
    double seconds;
  };

  // All ranks see the same times, so they agree on how many operations there are.
  Measured measure(const Operation& operation) {
    constexpr std::size_t batches = 5;
    (void)batch(operation, 1);  // connections are made
    double guess = batch(operation, 1);
    if (guess > 3 * options_.seconds) return {1, guess};
    if (guess < options_.seconds) guess = batch(operation, operations_in(options_.seconds / batches, guess));
    const std::size_t length = operations_in(options_.seconds / batches, guess);
    std::vector<double> times;
    const std::size_t wanted = guess > options_.seconds ? 1 : batches;
    while (times.size() < wanted) times.push_back(batch(operation, length));
    std::sort(times.begin(), times.end());
    return {times.size() * length, times[times.size() / 2]};
  }

  static std::size_t operations_in(double seconds, double each) {
    return static_cast<std::size_t>(std::clamp(seconds / std::max(each, 1e-9), 1.0, 1e6));
  }

  double batch(const Operation& operation, std::size_t operations) {
    library_.barrier();
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < operations; ++i) perform(operation);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return library_.most(seconds / static_cast<double>(operations));
  }

  void perform(const Operation& operation) {
    if (operation.collective == Collective::copy)
      std::memcpy(operation.out, operation.in, operation.count * sizeof(float));
    else
      library_.run(operation);
  }

  // -- what comes out

  [[nodiscard]] float expected(const Operation& operation, std::size_t index) const {
    const int rank = library_.rank();
    const auto all = static_cast<float>(ranks_ * (ranks_ + 1) / 2);
    const std::size_t block = index / operation.count;
    const std::size_t within = index % operation.count;
    switch (operation.collective) {
      case Collective::all_reduce:
        return all * given(0, index);
      case Collective::all_gather:
        return given(static_cast<int>(block), within);
      case Collective::reduce_scatter:
        return all * given(0, own_block(operation) + index);
      case Collective::all_to_all:
        return given(static_cast<int>(block), static_cast<std::size_t>(rank) * operation.count + within);
      case Collective::broadcast:
        return given(0, index);
      case Collective::copy:
        return given(rank, index);
    }
    return 0;
  }

  void put_input(const Operation& operation, std::size_t size) {
    std::memset(out_, 0xff, size);  // no result stays as it was
    if (operation.placement == Placement::out) return;
    if (operation.collective == Collective::broadcast && library_.rank() != 0) return;
    auto* target = const_cast<float*>(operation.in);  // in place: within out_
    std::memcpy(target, in_, operation.count * sizeof(float));
  }

  std::size_t check(const Operation& operation, std::size_t size) {
    put_input(operation, size);
    library_.barrier();
    perform(operation);
    const bool scattered = operation.collective == Collective::reduce_scatter;
    const std::size_t elements = scattered ? operation.count : size / sizeof(float);
    const std::size_t step = size > 1 << 20 ? 245 : 1;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < elements; i += step)
      if (out_[i] != expected(operation, i)) ++wrong;
    if (out_[elements - 1] != expected(operation, elements - 1)) ++wrong;
    return static_cast<std::size_t>(library_.most(static_cast<double>(wrong)));
  }

  Library& library_;
  const Options& options_;
  std::size_t ranks_;
  std::size_t bytes_;
  float* in_ = nullptr;
  float* out_ = nullptr;
};

int run_timing(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const std::unique_ptr<Library> library = open_library(options.place);
  if (options.pin) pin_to_own_core(library->rank(), library->ranks());
  Timing timing(*library, options);
  return timing.run() == 0 ? 0 : 7;
}

}  // namespace

}  // namespace softib::bench

int main(int argc, char** argv) {
  try {
    return softib::bench::run_timing(argc, argv);
  } catch (const std::exception& error) {
    softib::bench::die(error.what());
  }
}
