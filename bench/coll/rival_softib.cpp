// SoftIB's collectives: rank 0 leaves the id in the folder where ranks meet.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "coll/communicator.h"
#include "timing.h"

namespace softib::bench {

namespace {

namespace fs = std::filesystem;

template <typename T>
T must(coll::Outcome<T> outcome) {
  if (!outcome) die(outcome.error().text);
  return std::move(*outcome);
}

void leave_id(const fs::path& file, const coll::UniqueId& id) {
  const fs::path unfinished = file.string() + ".new";
  std::ofstream(unfinished, std::ios::binary).write(reinterpret_cast<const char*>(id.bytes.data()), sizeof id.bytes);
  fs::rename(unfinished, file);
}

coll::UniqueId await_id(const fs::path& file) {
  using namespace std::chrono_literals;
  const auto give_up = std::chrono::steady_clock::now() + 30s;
  while (!fs::exists(file)) {
    if (std::chrono::steady_clock::now() > give_up) die("rank 0 has left no word in " + file.string());
    std::this_thread::sleep_for(1ms);
  }
  coll::UniqueId id;
  std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(id.bytes.data()), sizeof id.bytes);
  return id;
}

class Engine final : public Library {
 public:
  explicit Engine(const Place& place) {
    const fs::path file = fs::path(place.meeting) / "id";
    if (place.rank == 0) leave_id(file, must(coll::UniqueId::make()));
    communicator_ =
        must(coll::Communicator::create(await_id(file), static_cast<u32>(place.ranks), static_cast<u32>(place.rank)));
  }

  [[nodiscard]] int rank() const override { return static_cast<int>(communicator_->rank()); }
  [[nodiscard]] int ranks() const override { return static_cast<int>(communicator_->size()); }
  void run(const Operation& operation) override { finish(start(operation)); }
  void barrier() override { finish(communicator_->start_barrier()); }
  [[nodiscard]] void* allocate(std::size_t bytes) override { return must(communicator_->allocate(bytes)); }

  [[nodiscard]] double most(double mine) override {
    finish(communicator_->start_all_reduce(&mine, &mine, 1, {coll::DataType::float64, coll::Op::max}));
    return mine;
  }

 private:
  [[nodiscard]] coll::Started start(const Operation& operation) {
    const auto [collective, placement, in, out, count] = operation;
    const coll::Reduction sum{coll::DataType::float32, coll::Op::sum};
    switch (collective) {
      case Collective::all_reduce:
        return communicator_->start_all_reduce(in, out, count, sum);
      case Collective::all_gather:
        return communicator_->start_all_gather(in, out, count, sum.type);
      case Collective::reduce_scatter:
        return communicator_->start_reduce_scatter(in, out, count, sum);
      case Collective::all_to_all:
        return communicator_->start_all_to_all(in, out, count, sum.type);
      case Collective::broadcast:
        return communicator_->start_broadcast(in, out, count, sum.type, 0);
      case Collective::copy:
        break;
    }
    die("no such collective");
  }

  void finish(coll::Started started) {
    const coll::Done done = communicator_->wait(must(std::move(started)));
    if (!done) die(done.error().text);
  }

  std::unique_ptr<coll::Communicator> communicator_;
};

}  // namespace

std::unique_ptr<Library> open_library(const Place& place) { return std::make_unique<Engine>(place); }

}  // namespace softib::bench
