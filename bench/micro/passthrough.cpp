// Calls that a preload library for RDMA must look at and hand on: what each costs a program that has nothing to do
// with RDMA. bench/micro/passthrough runs this with and without the library.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace {

int open_or_abort(const char* path, int flags) {
  int fd = ::open(path, flags);
  if (fd < 0) std::abort();
  return fd;
}

void write_null(benchmark::State& state) {
  int fd = open_or_abort("/dev/null", O_WRONLY);
  for (auto _ : state) benchmark::DoNotOptimize(::write(fd, "x", 1));
  ::close(fd);
}
BENCHMARK(write_null);

void read_zero(benchmark::State& state) {
  int fd = open_or_abort("/dev/zero", O_RDONLY);
  char byte;
  for (auto _ : state) benchmark::DoNotOptimize(::read(fd, &byte, 1));
  ::close(fd);
}
BENCHMARK(read_zero);

void open_close(benchmark::State& state) {
  for (auto _ : state) ::close(open_or_abort("/dev/null", O_RDONLY));
}
BENCHMARK(open_close);

void dup_close(benchmark::State& state) {
  int fd = open_or_abort("/dev/null", O_RDONLY);
  for (auto _ : state) ::close(::dup(fd));
  ::close(fd);
}
BENCHMARK(dup_close);

void stat_path(benchmark::State& state) {
  struct stat info;
  for (auto _ : state) benchmark::DoNotOptimize(::stat("/dev/null", &info));
}
BENCHMARK(stat_path);

void access_sysfs(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(::access("/sys/class/net", R_OK));
}
BENCHMARK(access_sysfs);

// FIONREAD of /dev/null: refused by the kernel at once.
void ioctl_null(benchmark::State& state) {
  int fd = open_or_abort("/dev/null", O_RDONLY);
  int bytes;
  for (auto _ : state) benchmark::DoNotOptimize(::ioctl(fd, FIONREAD, &bytes));
  ::close(fd);
}
BENCHMARK(ioctl_null);

void poll_none(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(::poll(nullptr, 0, 0));
}
BENCHMARK(poll_none);

void map_unmap(benchmark::State& state) {
  for (auto _ : state) {
    void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) std::abort();
    ::munmap(page, 4096);
  }
}
BENCHMARK(map_unmap);

void madvise_page(benchmark::State& state) {
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) std::abort();
  for (auto _ : state) benchmark::DoNotOptimize(::madvise(page, 4096, MADV_DONTNEED));
  ::munmap(page, 4096);
}
BENCHMARK(madvise_page);

}  // namespace

BENCHMARK_MAIN();
