// Open MPI and MPICH: mpirun says which rank this is.
#include <mpi.h>

#include "timing.h"

namespace softib::bench {

namespace {

class Mpi final : public Library {
 public:
  Mpi() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  ~Mpi() override { MPI_Finalize(); }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return ranks_; }

  void run(const Operation& operation) override {
    const int count = static_cast<int>(operation.count);
    const void* in = operation.placement == Placement::in ? MPI_IN_PLACE : operation.in;
    switch (operation.collective) {
      case Collective::all_reduce:
        MPI_Allreduce(in, operation.out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Collective::all_gather:
        MPI_Allgather(in, count, MPI_FLOAT, operation.out, count, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case Collective::reduce_scatter:
        MPI_Reduce_scatter_block(in, operation.out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Collective::all_to_all:
        MPI_Alltoall(in, count, MPI_FLOAT, operation.out, count, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case Collective::broadcast:
        MPI_Bcast(operation.out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
      case Collective::copy:
        break;
    }
  }

  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  [[nodiscard]] double most(double mine) override {
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return mine;
  }

 private:
  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace

std::unique_ptr<Library> open_library(const Place&) { return std::make_unique<Mpi>(); }

}  // namespace softib::bench
