// gloo over TCP, as PyTorch uses it: ranks meet in a folder. Its reduce-scatter is the older kind of its algorithms, an
// object for each buffer and size that adds in place.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstring>
#include <vector>

#include "timing.h"

namespace softib::bench {

namespace {

using Reduce = void (*)(void*, const void*, const void*, std::size_t);

class Gloo final : public Library {
 public:
  explicit Gloo(const Place& place) {
    gloo::transport::tcp::attr where;
    where.iface = place.interface.empty() ? "lo" : place.interface;
    auto device = gloo::transport::tcp::CreateDevice(where);
    gloo::rendezvous::FileStore store(place.meeting);
    auto context = std::make_shared<gloo::rendezvous::Context>(place.rank, place.ranks);
    context->connectFullMesh(store, device);
    context_ = std::move(context);
  }

  [[nodiscard]] int rank() const override { return context_->rank; }
  [[nodiscard]] int ranks() const override { return context_->size; }

  void prepare(const Operation& operation) override {
    scatter_.reset();
    if (operation.collective != Collective::reduce_scatter) return;
    const std::vector<int> counts(static_cast<std::size_t>(ranks()), static_cast<int>(operation.count));
    scatter_ = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(context_, std::vector<float*>{operation.out},
                                                                           ranks() * counts[0], counts);
  }

  void run(const Operation& operation) override {
    switch (operation.collective) {
      case Collective::all_reduce:
        return all_reduce(operation);
      case Collective::all_gather:
        return all_gather(operation);
      case Collective::reduce_scatter:
        std::memcpy(operation.out, operation.in, whole(operation) * sizeof(float));
        return scatter_->run();
      case Collective::all_to_all:
        return all_to_all(operation);
      case Collective::broadcast:
        return broadcast(operation);
      case Collective::copy:
        break;
    }
  }

  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  [[nodiscard]] double most(double mine) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(&mine, 1);
    options.setReduceFunction(static_cast<Reduce>(&gloo::max<double>));
    gloo::allreduce(options);
    return mine;
  }

 private:
  [[nodiscard]] std::size_t whole(const Operation& operation) const {
    return operation.count * static_cast<std::size_t>(ranks());
  }
  static float* input(const Operation& operation) { return const_cast<float*>(operation.in); }  // only read

  void all_reduce(const Operation& operation) {
    gloo::AllreduceOptions options(context_);
    if (operation.placement == Placement::out) options.setInput(input(operation), operation.count);
    options.setOutput(operation.out, operation.count);
    options.setReduceFunction(static_cast<Reduce>(&gloo::sum<float>));
    gloo::allreduce(options);
  }

  void all_gather(const Operation& operation) {
    gloo::AllgatherOptions options(context_);
    if (operation.placement == Placement::out) options.setInput(input(operation), operation.count);
    options.setOutput(operation.out, whole(operation));
    gloo::allgather(options);
  }

  void all_to_all(const Operation& operation) {
    gloo::AlltoallOptions options(context_);
    options.setInput(input(operation), whole(operation));
    options.setOutput(operation.out, whole(operation));
    gloo::alltoall(options);
  }

  void broadcast(const Operation& operation) {
    gloo::BroadcastOptions options(context_);
    options.setOutput(operation.out, operation.count);
    options.setRoot(0);
    gloo::broadcast(options);
  }

  std::shared_ptr<gloo::Context> context_;
  std::unique_ptr<gloo::ReduceScatterHalvingDoubling<float>> scatter_;
};

}  // namespace

std::unique_ptr<Library> open_library(const Place& place) { return std::make_unique<Gloo>(place); }

}  // namespace softib::bench
