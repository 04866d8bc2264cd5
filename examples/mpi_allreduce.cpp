// The step of data-parallel training that the network is bought for: every rank has its own gradients, all need their
// mean. Prints the time and the bus bandwidth as nccl-tests define it: 2 (n - 1) / n times bytes over time.
//
//   mpirun -H host0,host1 mpi_allreduce [MIB]      the size of the gradients, 16 by default
#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int steps = 10;

// Rank r's gradient number i.
float gradient(int rank, size_t i) { return static_cast<float>(i % 1000) * 0.001F + static_cast<float>(rank); }

// False: an element differs from the mean over all ranks by more than rounding.
bool is_mean(const std::vector<float>& values, int ranks) {
  const float of_ranks = static_cast<float>(ranks - 1) / 2;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::abs(values[i] - (gradient(0, i) + of_ranks)) > 1e-3F) return false;
  }
  return true;
}

void average(const std::vector<float>& mine, std::vector<float>& mean, int ranks) {
  MPI_Allreduce(mine.data(), mean.data(), static_cast<int>(mine.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (float& value : mean) value /= static_cast<float>(ranks);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const long mebibytes = argc > 1 ? std::atol(argv[1]) : 16;
  if (mebibytes < 1 || mebibytes > 1024) {
    if (rank == 0) std::fprintf(stderr, "usage: mpi_allreduce [MIB], 1 to 1024\n");
    MPI_Finalize();
    return 2;
  }
  const size_t bytes = static_cast<size_t>(mebibytes) << 20;
  std::vector<float> mine(bytes / sizeof(float)), mean(mine.size());
  for (size_t i = 0; i < mine.size(); ++i) mine[i] = gradient(rank, i);

  average(mine, mean, ranks);  // connections are made, memory is registered
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < steps; ++i) average(mine, mean, ranks);
  const double seconds = (MPI_Wtime() - start) / steps;

  int right = is_mean(mean, ranks) ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (rank == 0) {
    const double bus = 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) / seconds / 1e9;
    std::printf("%d ranks, %ld MiB: %.3f ms, bus bandwidth %.2f GB/s, %s\n", ranks, mebibytes, seconds * 1e3, bus,
                right ? "result right" : "result WRONG");
  }
  MPI_Finalize();
  return right ? 0 : 1;
}
