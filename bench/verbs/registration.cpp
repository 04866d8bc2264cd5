// What control calls cost, as a plain libibverbs program: registering much memory the first time and later (beside
// memcpy of as much), and creating many queue pairs and memory regions, with the memory that they take. One line of
// JSON comes out; times in microseconds, sizes in bytes.
#include <dirent.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using u64 = std::uint64_t;
using i64 = std::int64_t;

constexpr u64 page = 4096;
constexpr int access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

[[noreturn]] void give_up(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

double now_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

template <typename Action>
double time_us(Action&& action) {
  double start = now_us();
  action();
  return now_us() - start;
}

class Mapping {
 public:
  explicit Mapping(u64 size) : size_(size) {
    address_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address_ == MAP_FAILED) give_up("mmap");
  }
  ~Mapping() { ::munmap(address_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  [[nodiscard]] char* data() const { return static_cast<char*>(address_); }

 private:
  void* address_;
  u64 size_;
};

struct Device {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
};

Device open_first_device() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (!list || count == 0) {
    errno = ENODEV;
    give_up("no RDMA device");
  }
  Device device;
  device.context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  if (!device.context) give_up("ibv_open_device");
  device.pd = ibv_alloc_pd(device.context);
  if (!device.pd) give_up("ibv_alloc_pd");
  return device;
}

ibv_mr* register_memory(const Device& device, char* address, u64 length) {
  ibv_mr* mr = ibv_reg_mr(device.pd, address, length, access_flags);
  if (!mr) give_up("ibv_reg_mr of " + std::to_string(length) + " bytes");
  return mr;
}

// -- registering much memory

struct Registration {
  std::vector<double> copy_fresh, copy_warm, first_touched, first_untouched, again, slice, deregister;
};

// Registers all of `memory`; the first time its pages are met, then again and in slices, when they are known.
void register_touched(const Device& device, const Mapping& memory, u64 size, Registration& times) {
  constexpr int repeats = 20;
  constexpr u64 slice = 1 << 20;
  ibv_mr* mr = nullptr;
  times.first_touched.push_back(time_us([&] { mr = register_memory(device, memory.data(), size); }));
  for (int i = 0; i < repeats; ++i) {
    times.deregister.push_back(time_us([&] { ibv_dereg_mr(mr); }));
    times.again.push_back(time_us([&] { mr = register_memory(device, memory.data(), size); }));
  }
  for (u64 offset = 0; offset + slice <= size && offset < repeats * slice; offset += slice) {
    ibv_mr* part = nullptr;
    times.slice.push_back(time_us([&] { part = register_memory(device, memory.data() + offset, slice); }));
    ibv_dereg_mr(part);
  }
  ibv_dereg_mr(mr);
}

// A virtual machine's host takes back memory that has been free for a while, and the first touch then costs ten times
// as much. Both sides of the comparison start with memory that was in use just before.
void wake_memory(u64 size) {
  Mapping memory(size);
  std::memset(memory.data(), 1, size);
}

void measure_registration(const Device& device, u64 size, Registration& times) {
  Mapping memory(size);
  std::memset(memory.data(), 0x5a, size);
  wake_memory(2 * size);
  {
    Mapping target(size);
    times.copy_fresh.push_back(time_us([&] { std::memcpy(target.data(), memory.data(), size); }));
    times.copy_warm.push_back(time_us([&] { std::memcpy(target.data(), memory.data(), size); }));
  }
  wake_memory(2 * size);
  register_touched(device, memory, size, times);
  Mapping untouched(size);
  ibv_mr* mr = nullptr;
  times.first_untouched.push_back(time_us([&] { mr = register_memory(device, untouched.data(), size); }));
  ibv_dereg_mr(mr);
}

// -- the memory that objects take

struct Footprint {
  i64 program = 0;  // this process's private memory
  i64 daemon = 0;   // the daemon's private memory
  i64 segment = 0;  // allocated to the files that the daemon shares with everybody
  i64 mapped = 0;   // shared mappings of this process: the rings
};

i64 private_memory(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  for (std::string line; std::getline(status, line);) {
    i64 kib = 0;
    if (std::sscanf(line.c_str(), "RssAnon: %" SCNd64, &kib) == 1) return kib * 1024;
  }
  return 0;
}

// The pages of every memfd that the daemon holds and that is not one of its clients' memory files. Those are
// recognised by their size of 2^47 bytes.
i64 shared_files_of(const std::string& pid) {
  std::string folder = "/proc/" + pid + "/fd";
  DIR* entries = ::opendir(folder.c_str());
  if (!entries) return 0;
  i64 total = 0;
  std::vector<ino_t> seen;
  while (dirent* entry = ::readdir(entries)) {
    char target[64] = {};
    std::string path = folder + "/" + entry->d_name;
    struct stat info {};
    if (::readlink(path.c_str(), target, sizeof target - 1) < 0 || !std::string_view(target).starts_with("/memfd:"))
      continue;
    if (::stat(path.c_str(), &info) < 0 || info.st_size >= (1LL << 46)) continue;
    if (std::find(seen.begin(), seen.end(), info.st_ino) != seen.end()) continue;
    seen.push_back(info.st_ino);
    total += info.st_blocks * 512;
  }
  ::closedir(entries);
  return total;
}

i64 shared_mappings() {
  i64 total = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    u64 begin = 0, end = 0;
    char mode[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s", &begin, &end, mode) == 3 && mode[3] == 's')
      total += static_cast<i64>(end - begin);
  }
  return total;
}

Footprint footprint(const std::string& daemon) {
  Footprint now;
  now.program = private_memory("self");
  now.mapped = shared_mappings();
  if (!daemon.empty()) {
    now.daemon = private_memory(daemon);
    now.segment = shared_files_of(daemon);
  }
  return now;
}

struct Crowd {
  u64 count = 0;
  double create_us = 0;  // all of them
  double destroy_us = 0;
  Footprint before, full, after;
};

ibv_qp* create_qp(const Device& device, ibv_cq* cq) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = cq;
  wanted.recv_cq = cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = 1;
  wanted.cap.max_recv_wr = 1;
  wanted.cap.max_send_sge = 1;
  wanted.cap.max_recv_sge = 1;
  return ibv_create_qp(device.pd, &wanted);
}

Crowd measure_qps(const Device& device, u64 count, const std::string& daemon) {
  ibv_cq* cq = ibv_create_cq(device.context, 16, nullptr, nullptr, 0);
  if (!cq) give_up("ibv_create_cq");
  Crowd crowd;
  crowd.count = count;
  std::vector<ibv_qp*> qps(count);
  crowd.before = footprint(daemon);
  crowd.create_us = time_us([&] {
    for (ibv_qp*& qp : qps) {
      qp = create_qp(device, cq);
      if (!qp) give_up("ibv_create_qp number " + std::to_string(&qp - qps.data() + 1));
    }
  });
  crowd.full = footprint(daemon);
  crowd.destroy_us = time_us([&] {
    for (ibv_qp* qp : qps) ibv_destroy_qp(qp);
  });
  crowd.after = footprint(daemon);
  ibv_destroy_cq(cq);
  return crowd;
}

// Each region is a page of its own, all pages side by side: many small buffers of one allocator.
Crowd measure_mrs(const Device& device, u64 count, const std::string& daemon) {
  Mapping memory(count * page);
  std::memset(memory.data(), 1, count * page);
  Crowd crowd;
  crowd.count = count;
  std::vector<ibv_mr*> mrs(count);
  crowd.before = footprint(daemon);
  crowd.create_us = time_us([&] {
    for (u64 i = 0; i < count; ++i) mrs[i] = register_memory(device, memory.data() + i * page, page);
  });
  crowd.full = footprint(daemon);
  crowd.destroy_us = time_us([&] {
    for (ibv_mr* mr : mrs) ibv_dereg_mr(mr);
  });
  crowd.after = footprint(daemon);
  return crowd;
}

// -- the program

struct Options {
  u64 mib = 1024;
  u64 repeats = 5;
  u64 qps = 10'000;
  u64 mrs = 100'000;
  std::string daemon;
};

bool take_value(Options& options, std::string_view name, const char* value) {
  struct Number {
    std::string_view name;
    u64* place;
  };
  u64 number = std::strtoull(value, nullptr, 10);
  if (name == "--daemon-pid") options.daemon = value;
  for (const Number& known : {Number{"--mib", &options.mib}, Number{"--repeats", &options.repeats},
                              Number{"--qps", &options.qps}, Number{"--mrs", &options.mrs}}) {
    if (name != known.name) continue;
    *known.place = number;
    return number > 0;
  }
  return name == "--daemon-pid" && number > 0;
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  if (argc % 2 == 0) return std::nullopt;
  for (int i = 1; i < argc; i += 2) {
    if (!take_value(options, argv[i], argv[i + 1])) return std::nullopt;
  }
  return options;
}

void print(const char* name, const std::vector<double>& values) {
  std::printf(", \"%s\": ", name);
  const char* separator = "[";
  for (double value : values) {
    std::printf("%s%.2f", separator, value);
    separator = ", ";
  }
  std::printf("]");
}

void print(const Registration& times, u64 size) {
  std::printf("\"registration\": {\"size\": %" PRIu64, size);
  print("memcpy_fresh_us", times.copy_fresh);
  print("memcpy_warm_us", times.copy_warm);
  print("first_touched_us", times.first_touched);
  print("first_untouched_us", times.first_untouched);
  print("again_us", times.again);
  print("slice_us", times.slice);
  print("deregister_us", times.deregister);
  std::printf("}");
}

void print(const char* name, const Crowd& crowd) {
  auto growth = [&](i64 Footprint::*part, const Footprint& from, const Footprint& to) { return to.*part - from.*part; };
  std::printf(", \"%s\": {\"count\": %" PRIu64 ", \"create_us\": %.3f, \"destroy_us\": %.3f", name, crowd.count,
              crowd.create_us / static_cast<double>(crowd.count), crowd.destroy_us / static_cast<double>(crowd.count));
  struct Part {
    const char* name;
    i64 Footprint::*value;
  };
  constexpr Part parts[] = {{"program", &Footprint::program},
                            {"daemon", &Footprint::daemon},
                            {"segment", &Footprint::segment},
                            {"mapped", &Footprint::mapped}};
  for (const Part& part : parts) {
    std::printf(", \"%s_bytes\": %" PRId64 ", \"%s_left_bytes\": %" PRId64, part.name,
                growth(part.value, crowd.before, crowd.full), part.name, growth(part.value, crowd.before, crowd.after));
  }
  std::printf("}");
}

void measure(const Options& options) {
  Device device = open_first_device();
  Registration times;
  u64 size = options.mib << 20;
  for (u64 i = 0; i < options.repeats; ++i) measure_registration(device, size, times);
  Crowd qps = measure_qps(device, options.qps, options.daemon);
  Crowd mrs = measure_mrs(device, options.mrs, options.daemon);
  std::printf("{");
  print(times, size);
  print("queue_pairs", qps);
  print("memory_regions", mrs);
  std::printf("}\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<Options> options = parse(argc, argv);
  if (!options) {
    std::fprintf(stderr, "usage: bench_registration [--mib N] [--repeats N] [--qps N] [--mrs N] [--daemon-pid PID]\n");
    return 2;
  }
  try {
    measure(*options);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "bench_registration: %s\n", problem.what());
    return 1;
  }
  return 0;
}
