// Non-blocking collectives in C++: gradients are summed while the next ones are still computed.
//
//     coll_pipeline [RANKS]
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "coll/communicator.h"

namespace coll = softib::coll;

namespace {

template <typename T>
T value_of(coll::Outcome<T> outcome) {
  if (outcome) return std::move(*outcome);
  std::fprintf(stderr, "%s\n", outcome.error().text.c_str());
  std::exit(1);
}

int run_rank(const coll::UniqueId& id, softib::u32 ranks, softib::u32 rank) {
  const auto communicator = value_of(coll::Communicator::create(id, ranks, rank));
  constexpr std::size_t layers = 8;
  constexpr std::size_t count = 10000;
  std::vector<std::vector<float>> gradients(layers, std::vector<float>(count));
  std::vector<coll::Request> requests;
  for (auto& layer : gradients) {
    std::iota(layer.begin(), layer.end(), static_cast<float>(rank));  // the computation of this layer
    const coll::Reduction mean{coll::DataType::float32, coll::Op::avg};
    requests.push_back(value_of(communicator->start_all_reduce(layer.data(), layer.data(), count, mean)));
    communicator->progress();  // nothing moves while nobody calls
  }
  for (const coll::Request request : requests)
    if (const coll::Done done = communicator->wait(request); !done) {
      std::fprintf(stderr, "%s\n", done.error().text.c_str());
      return 1;
    }
  const float expected = static_cast<float>(ranks - 1) / 2;
  if (rank == 0) std::printf("%s\n", communicator->plan("all_reduce", count * sizeof(float)).c_str());
  return gradients[layers - 1][0] == expected ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int wanted = argc > 1 ? std::atoi(argv[1]) : 2;
  if (wanted < 1) {
    std::fprintf(stderr, "usage: coll_pipeline [RANKS]\n");
    return 2;
  }
  const auto ranks = static_cast<softib::u32>(wanted);
  const coll::UniqueId id = value_of(coll::UniqueId::make());
  for (softib::u32 rank = 1; rank < ranks; ++rank)
    if (::fork() == 0) return run_rank(id, ranks, rank);
  int failed = run_rank(id, ranks, 0);
  int status = 0;
  while (::wait(&status) > 0) failed |= static_cast<int>(status != 0);
  return failed;
}
