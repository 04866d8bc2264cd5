// Latency and bandwidth between two ranks, measured as the OSU micro-benchmarks do.
//
//   ping latency|bandwidth [SIZE]...
//
// latency: half of a round trip of blocking sends, in microseconds. bandwidth: windows of 64 non-blocking sends, each
// answered by one short message, in MB/s (10^6). Prints "SIZE VALUE" lines on rank 0.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int window = 64;

struct Rounds {
  int warm_up;
  int counted;
};

Rounds rounds_for(size_t size) {
  return size > 65536 ? Rounds{5, 40} : size > 8192 ? Rounds{20, 400} : Rounds{200, 5000};
}

double latency(int rank, std::vector<char>& buffer, size_t size) {
  const int length = static_cast<int>(size);
  const Rounds rounds = rounds_for(size);
  double start = 0;
  for (int i = 0; i < rounds.warm_up + rounds.counted; ++i) {
    if (i == rounds.warm_up) start = MPI_Wtime();
    if (rank == 0) MPI_Send(buffer.data(), length, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(buffer.data(), length, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(buffer.data(), length, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
  }
  return (MPI_Wtime() - start) / rounds.counted / 2 * 1e6;
}

void exchange_window(int rank, std::vector<char>& buffer, int length) {
  MPI_Request requests[window];
  for (MPI_Request& request : requests) {
    if (rank == 0)
      MPI_Isend(buffer.data(), length, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request);
    else
      MPI_Irecv(buffer.data(), length, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &request);
  }
  MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
  char answer = 0;
  if (rank == 0)
    MPI_Recv(&answer, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else
    MPI_Send(&answer, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
}

double bandwidth(int rank, std::vector<char>& buffer, size_t size) {
  const Rounds rounds = rounds_for(size);
  const int counted = std::max(rounds.counted / 10, 10);
  double start = 0;
  for (int i = 0; i < rounds.warm_up + counted; ++i) {
    if (i == rounds.warm_up) start = MPI_Wtime();
    exchange_window(rank, buffer, static_cast<int>(size));
  }
  return static_cast<double>(size) * window * counted / (MPI_Wtime() - start) / 1e6;
}

// Libraries make and change connections behind the first messages, for some milliseconds.
void settle(int rank) {
  constexpr double seconds = 0.2;
  std::vector<char> buffer(8);
  const double end = MPI_Wtime() + seconds;
  for (int more = 1; more != 0;) {
    (void)latency(rank, buffer, buffer.size());
    more = MPI_Wtime() < end ? 1 : 0;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
}

std::vector<size_t> sizes_of(int argc, char** argv) {
  std::vector<size_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if (sizes.empty()) sizes = {8, 1024, 65536, 1048576};
  return sizes;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::string what = argc > 1 ? argv[1] : "";
  if ((what != "latency" && what != "bandwidth") || ranks != 2) {
    if (rank == 0) std::fprintf(stderr, "usage: ping latency|bandwidth [SIZE]...   (with 2 ranks)\n");
    MPI_Finalize();
    return 2;
  }
  settle(rank);
  for (size_t size : sizes_of(argc, argv)) {
    std::vector<char> buffer(size);
    const double value = what == "latency" ? latency(rank, buffer, size) : bandwidth(rank, buffer, size);
    if (rank == 0) std::printf("%zu %.3f\n", size, value);
  }
  MPI_Finalize();
  return 0;
}
