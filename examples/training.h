// What the training examples share: a small network in plain C++, its data, and how ranks begin.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "coll/communicator.h"

namespace training {

namespace coll = softib::coll;
using Numbers = std::vector<double>;

template <typename T>
T value_of(coll::Outcome<T> outcome) {
  if constexpr (!std::is_void_v<T>) {
    if (outcome) return std::move(*outcome);
  } else if (outcome) {
    return;
  }
  std::fprintf(stderr, "%s\n", outcome.error().text.c_str());
  std::exit(1);
}

// Rows of numbers, one row for each sample.
struct Batch {
  std::size_t rows = 0;
  Numbers numbers;
};

// out = tanh(in * weights + bias). Weights and gradients lie in vectors that all layers of a network share, so that one
// collective moves all of them.
struct Layer {
  std::size_t inputs, outputs, offset;

  [[nodiscard]] std::size_t size() const { return (inputs + 1) * outputs; }

  [[nodiscard]] Batch forward(const Numbers& weights, const Batch& in) const {
    Batch out{in.rows, Numbers(in.rows * outputs)};
    for (std::size_t row = 0; row < in.rows; ++row)
      for (std::size_t o = 0; o < outputs; ++o) {
        double sum = weights[offset + inputs * outputs + o];
        for (std::size_t i = 0; i < inputs; ++i)
          sum += in.numbers[row * inputs + i] * weights[offset + i * outputs + o];
        out.numbers[row * outputs + o] = std::tanh(sum);
      }
    return out;
  }

  // Adds to the gradients, and gives what the loss changes by with the layer's input.
  [[nodiscard]] Batch backward(const Numbers& weights, Numbers& gradients, const Batch& in, const Batch& out,
                               const Batch& change) const {
    Batch back{in.rows, Numbers(in.rows * inputs)};
    for (std::size_t row = 0; row < in.rows; ++row)
      for (std::size_t o = 0; o < outputs; ++o) {
        const double y = out.numbers[row * outputs + o];
        const double slope = change.numbers[row * outputs + o] * (1 - y * y);
        gradients[offset + inputs * outputs + o] += slope;
        for (std::size_t i = 0; i < inputs; ++i) {
          gradients[offset + i * outputs + o] += slope * in.numbers[row * inputs + i];
          back.numbers[row * inputs + i] += slope * weights[offset + i * outputs + o];
        }
      }
    return back;
  }
};

// Some layers one after another: a network, or one rank's part of it.
class Network {
 public:
  Network(std::span<const std::size_t> widths, unsigned seed) {
    std::size_t offset = 0;
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
      layers_.push_back({widths[i], widths[i + 1], offset});
      offset += layers_.back().size();
    }
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> any(-0.5, 0.5);
    for (std::size_t i = 0; i < offset; ++i) weights.push_back(any(random));
    gradients.resize(offset);
  }

  // All that backward() needs: the input, and what each layer made of it.
  [[nodiscard]] std::vector<Batch> forward(Batch in) const {
    std::vector<Batch> all{std::move(in)};
    for (const Layer& layer : layers_) all.push_back(layer.forward(weights, all.back()));
    return all;
  }
  [[nodiscard]] Batch backward(const std::vector<Batch>& all, Batch change) {
    for (std::size_t i = layers_.size(); i-- > 0;)
      change = layers_[i].backward(weights, gradients, all[i], all[i + 1], change);
    return change;
  }
  void step(double rate) {
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= rate * std::exchange(gradients[i], 0);
  }

  Numbers weights;
  Numbers gradients;

 private:
  std::vector<Layer> layers_;
};

// Mean squared distance; `change`: how it changes with each number of `out`. `rows`: of the whole batch, of which these
// may be a part.
inline double loss_of(const Batch& out, const Batch& wanted, std::size_t rows, Batch& change) {
  double sum = 0;
  change = {out.rows, Numbers(out.numbers.size())};
  for (std::size_t i = 0; i < out.numbers.size(); ++i) {
    const double distance = out.numbers[i] - wanted.numbers[i];
    sum += distance * distance / static_cast<double>(rows);
    change.numbers[i] = 2 * distance / static_cast<double>(rows);
  }
  return sum;
}

inline constexpr std::size_t inputs = 4;

struct Samples {
  Batch points, wanted;

  [[nodiscard]] Samples rows(std::size_t first, std::size_t count) const {
    const auto cut = [&](const Batch& all, std::size_t width) {
      const auto begin = all.numbers.begin() + static_cast<std::ptrdiff_t>(first * width);
      return Batch{count, Numbers(begin, begin + static_cast<std::ptrdiff_t>(count * width))};
    };
    return {cut(points, inputs), cut(wanted, 1)};
  }
};

// The same on every rank: the batch of a step, and what the network should say of it.
inline Samples batch_of(unsigned step, std::size_t rows) {
  std::mt19937 random(1000 + step);
  std::uniform_real_distribution<double> any(-1, 1);
  Samples samples{{rows, {}}, {rows, {}}};
  for (std::size_t row = 0; row < rows; ++row) {
    double product = 1;
    for (std::size_t i = 0; i < inputs; ++i) {
      samples.points.numbers.push_back(any(random));
      product *= samples.points.numbers.back();
    }
    samples.wanted.numbers.push_back(std::sin(3 * product));
  }
  return samples;
}

// One process, all of the data.
inline Numbers train_alone(Network network, unsigned steps, std::size_t rows, double rate) {
  Numbers losses;
  for (unsigned step = 0; step < steps; ++step) {
    const Samples samples = batch_of(step, rows);
    const auto all = network.forward(samples.points);
    Batch change;
    losses.push_back(loss_of(all.back(), samples.wanted, rows, change));
    static_cast<void>(network.backward(all, std::move(change)));
    network.step(rate);
  }
  return losses;
}

// Prints both. 0 if they are equal but for rounding and the loss went down.
inline int compare(const Numbers& together, const Numbers& alone, const char* how) {
  double apart = 0;
  for (std::size_t i = 0; i < alone.size(); ++i)
    apart = std::max(apart, std::abs(together[i] - alone[i]) / std::abs(alone[i]));
  const bool equal = apart < 1e-9;
  std::printf("%s: loss %.6f -> %.6f\none process: loss %.6f -> %.6f\n%s (largest relative difference %.1e)\n", how,
              together.front(), together.back(), alone.front(), alone.back(), equal ? "equal" : "DIFFERENT", apart);
  return equal && alone.back() < alone.front() ? 0 : 1;
}

// `softib run all -- PROGRAM` tells where to meet by the variables that torchrun has.
inline void meet_at_master() {
  const char *address = std::getenv("MASTER_ADDR"), *port = std::getenv("MASTER_PORT");
  if (address != nullptr && port != nullptr && std::getenv("RANK") != nullptr)
    ::setenv("SOFTIB_COMM_ID", (std::string(address) + ":" + port).c_str(), 0);
}

// With RANK, WORLD_SIZE and SOFTIB_COMM_ID this process is one rank; else it starts `ranks` of itself.
inline int run_ranks(softib::u32 ranks, const std::function<int(coll::Communicator&)>& run_rank) {
  meet_at_master();
  const coll::UniqueId id = value_of(coll::UniqueId::make());
  const auto join = [&](softib::u32 size, softib::u32 rank) {
    return run_rank(*value_of(coll::Communicator::create(id, size, rank)));
  };
  if (const char* rank = std::getenv("RANK"); rank != nullptr && std::getenv("WORLD_SIZE") != nullptr)
    return join(static_cast<softib::u32>(std::atoi(std::getenv("WORLD_SIZE"))),
                static_cast<softib::u32>(std::atoi(rank)));
  for (softib::u32 rank = 1; rank < ranks; ++rank)
    if (::fork() == 0) {
      const int failed = join(ranks, rank);
      std::fflush(stdout);
      ::_exit(failed);
    }
  int failed = join(ranks, 0);
  int status = 0;
  while (::wait(&status) > 0) failed |= static_cast<int>(status != 0);
  return failed;
}

}  // namespace training
