// Data-parallel training in C++: rank 0's first weights go to all by a broadcast; each rank computes the gradients of
// its share of every batch, and an all-reduce gives all of them the mean. The losses are those of one process with all
// of the data.
//
//     train_data_parallel [RANKS]                                                         on one host
//     SOFTIB_COMM_ID=host0:4000 WORLD_SIZE=2 RANK=0 train_data_parallel                   on host0, RANK=1 on host1
//     softib run all -- train_data_parallel                                               on all hosts
#include <array>

#include "training.h"

using namespace training;

namespace {

constexpr std::array<std::size_t, 4> widths{inputs, 32, 32, 1};
constexpr unsigned steps = 40;
constexpr std::size_t rows_of_rank = 16;
constexpr double rate = 0.2;

int run_rank(coll::Communicator& ranks) {
  const std::size_t rows = rows_of_rank * ranks.size();
  Network network(widths, ranks.rank());  // every rank begins elsewhere
  const coll::Request given = value_of(ranks.start_broadcast(network.weights.data(), network.weights.data(),
                                                             network.weights.size(), coll::DataType::float64, 0));
  value_of(ranks.wait(given));
  const Network first = network;

  Numbers losses;
  for (unsigned step = 0; step < steps; ++step) {
    const Samples share = batch_of(step, rows).rows(rows_of_rank * ranks.rank(), rows_of_rank);
    const auto all = network.forward(share.points);
    Batch change;
    double loss = loss_of(all.back(), share.wanted, rows_of_rank, change);
    static_cast<void>(network.backward(all, std::move(change)));
    const coll::Reduction mean{coll::DataType::float64, coll::Op::avg, {}};
    static_cast<void>(value_of(
        ranks.start_all_reduce(network.gradients.data(), network.gradients.data(), network.gradients.size(), mean)));
    static_cast<void>(value_of(ranks.start_all_reduce(&loss, &loss, 1, mean)));
    value_of(ranks.wait_all());
    network.step(rate);
    losses.push_back(loss);
  }
  if (ranks.rank() != 0) return 0;
  return compare(losses, train_alone(first, steps, rows, rate), "data-parallel");
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  if (ranks >= 1) return run_ranks(static_cast<softib::u32>(ranks), run_rank);
  std::fprintf(stderr, "usage: train_data_parallel [RANKS], or softib run all -- train_data_parallel\n");
  return 2;
}
