// A model split over two ranks: rank 0 has the first layers and sends what they make of the data forward, rank 1 has
// the others and sends back how the loss changes with it. Batches go in four parts, so that rank 0 computes the next
// one while rank 1 is at the last. The losses are those of one process with the whole model.
//
//     train_split_model                                                                   on one host
//     SOFTIB_COMM_ID=host0:4000 WORLD_SIZE=2 RANK=0 train_split_model                     on host0, RANK=1 on host1
//     softib run all -- train_split_model                                                 on all hosts
#include <algorithm>
#include <array>

#include "training.h"

using namespace training;

namespace {

constexpr std::array<std::size_t, 3> front_widths{inputs, 32, 24};
constexpr std::array<std::size_t, 3> back_widths{24, 32, 1};
constexpr std::size_t between = 24;
constexpr unsigned steps = 40;
constexpr std::size_t parts = 4;
constexpr std::size_t rows = 32;
constexpr std::size_t rows_of_part = rows / parts;
constexpr double rate = 0.2;

coll::Request begin(coll::Communicator& ranks, coll::PointToPoint::Kind kind, Batch& batch) {
  const coll::PointToPoint message{kind, 1 - ranks.rank(), batch.numbers.data(), batch.numbers.size() * sizeof(double)};
  return value_of(ranks.start_messages({&message, 1}));
}

void train_front(coll::Communicator& ranks) {
  Network network(front_widths, 1);
  for (unsigned step = 0; step < steps; ++step) {
    const Samples samples = batch_of(step, rows);
    std::array<std::vector<Batch>, parts> all;
    std::array<Batch, parts> changes;
    std::array<coll::Request, parts> coming;
    for (std::size_t part = 0; part < parts; ++part) {
      all[part] = network.forward(samples.rows(part * rows_of_part, rows_of_part).points);
      begin(ranks, coll::PointToPoint::Kind::send, all[part].back());
      changes[part] = {rows_of_part, Numbers(rows_of_part * between)};
      coming[part] = begin(ranks, coll::PointToPoint::Kind::receive, changes[part]);
    }
    for (std::size_t part = 0; part < parts; ++part) {
      value_of(ranks.wait(coming[part]));
      static_cast<void>(network.backward(all[part], changes[part]));
    }
    value_of(ranks.wait_all());
    network.step(rate);
  }
}

// Rank 1 knows the losses.
Numbers train_back(coll::Communicator& ranks) {
  Network network(back_widths, 2);
  Numbers losses;
  for (unsigned step = 0; step < steps; ++step) {
    const Samples samples = batch_of(step, rows);
    std::array<Batch, parts> given;
    std::array<Batch, parts> changes;
    std::array<coll::Request, parts> coming;
    for (std::size_t part = 0; part < parts; ++part) {
      given[part] = {rows_of_part, Numbers(rows_of_part * between)};
      coming[part] = begin(ranks, coll::PointToPoint::Kind::receive, given[part]);
    }
    double loss = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      value_of(ranks.wait(coming[part]));
      const auto all = network.forward(given[part]);
      Batch change;
      loss += loss_of(all.back(), samples.rows(part * rows_of_part, rows_of_part).wanted, rows, change);
      changes[part] = network.backward(all, std::move(change));
      begin(ranks, coll::PointToPoint::Kind::send, changes[part]);
    }
    value_of(ranks.wait_all());
    network.step(rate);
    losses.push_back(loss);
  }
  return losses;
}

// Both parts as one, with the weights that they begin with.
Network whole_network() {
  constexpr std::array<std::size_t, 5> widths{inputs, 32, between, 32, 1};
  Network whole(widths, 0);
  const Network front(front_widths, 1);
  const Network back(back_widths, 2);
  std::copy(back.weights.begin(), back.weights.end(),
            std::copy(front.weights.begin(), front.weights.end(), whole.weights.begin()));
  return whole;
}

int run_rank(coll::Communicator& ranks) {
  if (ranks.size() != 2) {
    std::fprintf(stderr, "train_split_model: the model has two parts, not %u\n", ranks.size());
    return 2;
  }
  if (ranks.rank() == 0) {
    train_front(ranks);
    return 0;
  }
  return compare(train_back(ranks), train_alone(whole_network(), steps, rows, rate), "split over two ranks");
}

}  // namespace

int main() { return run_ranks(2, run_rank); }
