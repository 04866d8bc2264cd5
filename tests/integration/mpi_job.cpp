// A job for tests of launchers and message libraries.
//
//   mpi_job greet                  each rank tells its number and its host
//   mpi_job collectives [SIZE]...  every collective operation with SIZE elements a rank: are the results right?
//   mpi_job wait                   tells when all ranks are there; then they meet in barriers until the job is ended
//   mpi_job die                    as wait, but the last rank kills itself once all are there
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

namespace {

using Values = std::vector<int64_t>;

struct World {
  int rank = 0;
  int ranks = 0;
  MPI_Comm all = MPI_COMM_WORLD;
};

// What rank `from` has at `at` for `to`: no two are alike.
int64_t value(int from, size_t at, int to = 0) { return from * 1'000'003 + static_cast<int64_t>(at) * 17 + to * 101; }

// The sum over ranks below `ranks` of what they have at `at`.
int64_t sum_of(int ranks, size_t at) {
  int64_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value(rank, at);
  return sum;
}

Values filled(size_t size, const std::function<int64_t(size_t)>& value_at) {
  Values values(size);
  for (size_t i = 0; i < size; ++i) values[i] = value_at(i);
  return values;
}

void compare(const World& world, const char* what, const Values& got, const Values& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (got[i] == wanted[i]) continue;
    std::fprintf(stderr, "rank %d of %d: %s with %zu: element %zu is %lld, not %lld\n", world.rank, world.ranks, what,
                 wanted.size(), i, static_cast<long long>(got[i]), static_cast<long long>(wanted[i]));
    MPI_Abort(world.all, 1);
  }
}

int count_of(const Values& values) { return static_cast<int>(values.size()); }

// -- from one to all, from all to one

void check_broadcast(const World& world, size_t size) {
  for (int root = 0; root < world.ranks; ++root) {
    const Values wanted = filled(size, [root](size_t i) { return value(root, i); });
    Values got = world.rank == root ? wanted : Values(size);
    MPI_Bcast(got.data(), count_of(got), MPI_INT64_T, root, world.all);
    compare(world, "broadcast", got, wanted);
  }
}

void check_reduce(const World& world, size_t size) {
  const Values mine = filled(size, [&](size_t i) { return value(world.rank, i); });
  const Values wanted = filled(size, [&](size_t i) { return sum_of(world.ranks, i); });
  for (int root = 0; root < world.ranks; ++root) {
    Values got(size);
    MPI_Reduce(mine.data(), got.data(), count_of(mine), MPI_INT64_T, MPI_SUM, root, world.all);
    if (world.rank == root) compare(world, "reduce", got, wanted);
  }
}

void check_gather_and_scatter(const World& world, size_t size) {
  const int root = world.ranks - 1;
  const size_t total = size * static_cast<size_t>(world.ranks);
  const int count = static_cast<int>(size);
  const Values mine = filled(size, [&](size_t i) { return value(world.rank, i); });
  const Values wanted = filled(total, [size](size_t i) { return value(static_cast<int>(i / size), i % size); });
  Values all(total);
  MPI_Gather(mine.data(), count, MPI_INT64_T, all.data(), count, MPI_INT64_T, root, world.all);
  if (world.rank == root) compare(world, "gather", all, wanted);
  Values back(size);
  MPI_Scatter(all.data(), count, MPI_INT64_T, back.data(), count, MPI_INT64_T, root, world.all);
  compare(world, "scatter", back, mine);
}

// -- from all to all

void check_allreduce(const World& world, size_t size) {
  const Values mine = filled(size, [&](size_t i) { return value(world.rank, i); });
  Values got(size);
  MPI_Allreduce(mine.data(), got.data(), count_of(mine), MPI_INT64_T, MPI_SUM, world.all);
  compare(world, "allreduce", got, filled(size, [&](size_t i) { return sum_of(world.ranks, i); }));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(mine.data(), got.data(), count_of(mine), MPI_INT64_T, MPI_MAX, world.all, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  compare(world, "allreduce in the background", got, filled(size, [&](size_t i) { return value(world.ranks - 1, i); }));
}

void check_allgather(const World& world, size_t size) {
  const size_t total = size * static_cast<size_t>(world.ranks);
  const Values mine = filled(size, [&](size_t i) { return value(world.rank, i); });
  Values got(total);
  MPI_Allgather(mine.data(), count_of(mine), MPI_INT64_T, got.data(), count_of(mine), MPI_INT64_T, world.all);
  compare(world, "allgather", got,
          filled(total, [size](size_t i) { return value(static_cast<int>(i / size), i % size); }));
}

void check_alltoall(const World& world, size_t size) {
  const size_t total = size * static_cast<size_t>(world.ranks);
  const int count = static_cast<int>(size);
  const Values mine = filled(total, [&](size_t i) { return value(world.rank, i % size, static_cast<int>(i / size)); });
  Values got(total);
  MPI_Alltoall(mine.data(), count, MPI_INT64_T, got.data(), count, MPI_INT64_T, world.all);
  compare(world, "alltoall", got,
          filled(total, [&](size_t i) { return value(static_cast<int>(i / size), i % size, world.rank); }));
}

// -- to each its part

void check_scan(const World& world, size_t size) {
  const Values mine = filled(size, [&](size_t i) { return value(world.rank, i); });
  Values got(size);
  MPI_Scan(mine.data(), got.data(), count_of(mine), MPI_INT64_T, MPI_SUM, world.all);
  compare(world, "scan", got, filled(size, [&](size_t i) { return sum_of(world.rank + 1, i); }));
}

void check_reduce_scatter(const World& world, size_t size) {
  const size_t first = size * static_cast<size_t>(world.rank);
  const Values mine = filled(size * static_cast<size_t>(world.ranks), [&](size_t i) { return value(world.rank, i); });
  Values got(size);
  MPI_Reduce_scatter_block(mine.data(), got.data(), static_cast<int>(size), MPI_INT64_T, MPI_SUM, world.all);
  compare(world, "reduce_scatter", got, filled(size, [&](size_t i) { return sum_of(world.ranks, first + i); }));
}

constexpr void (*checks[])(const World&, size_t) = {check_broadcast, check_reduce,        check_gather_and_scatter,
                                                    check_allreduce, check_allgather,     check_alltoall,
                                                    check_scan,      check_reduce_scatter};

void check_all(const World& world, size_t size) {
  for (auto check : checks) check(world, size);
}

// In the world, and in its two halves at the same time.
void collectives(World world, const std::vector<size_t>& sizes) {
  World half;
  MPI_Comm_split(world.all, world.rank % 2, world.rank, &half.all);
  MPI_Comm_rank(half.all, &half.rank);
  MPI_Comm_size(half.all, &half.ranks);
  for (size_t size : sizes) {
    check_all(world, size);
    check_all(half, size);
  }
  MPI_Comm_free(&half.all);
  MPI_Barrier(world.all);
  if (world.rank == 0) std::printf("collectives of %d ranks right\n", world.ranks);
}

// -- jobs that others end

void greet(const World& world) {
  char host[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  MPI_Get_processor_name(host, &length);
  std::printf("rank %d of %d on %s\n", world.rank, world.ranks, host);
}

[[noreturn]] void meet_for_ever(const World& world, bool last_one_dies) {
  MPI_Barrier(world.all);
  if (world.rank == 0) std::printf("all here\n");
  std::fflush(stdout);
  MPI_Barrier(world.all);
  if (last_one_dies && world.rank == world.ranks - 1) ::kill(::getpid(), SIGKILL);
  for (;;) MPI_Barrier(world.all);
}

std::vector<size_t> sizes_of(int argc, char** argv) {
  std::vector<size_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if (sizes.empty()) sizes = {1, 1000};
  return sizes;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  World world;
  MPI_Comm_rank(world.all, &world.rank);
  MPI_Comm_size(world.all, &world.ranks);
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "wait" || what == "die") meet_for_ever(world, what == "die");
  if (what == "greet")
    greet(world);
  else if (what == "collectives")
    collectives(world, sizes_of(argc, argv));
  else if (world.rank == 0)
    std::fprintf(stderr, "usage: mpi_job greet | collectives [SIZE]... | wait | die\n");
  MPI_Finalize();
  return 0;
}
