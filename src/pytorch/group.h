// torch.distributed's backend "softib": PyTorch's collectives, on tensors in the processor's memory, as tasks of a
// runner.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pytorch/meeting.h"
#include "pytorch/runner.h"
#include "pytorch/tensors.h"
#include "pytorch/version.h"
#include "pytorch/work.h"

namespace softib::pytorch {

using WorkPointer = c10::intrusive_ptr<::c10d::Work>;

class Group : public GroupBase {
 public:
  // Collective; throws.
  Group(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout);
  ~Group() override;

  [[nodiscard]] const std::string getBackendName() const override { return "softib"; }

  WorkPointer broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors, const ::c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const ::c10d::ReduceOptions& options) override;
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const ::c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input, const ::c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const ::c10d::AllgatherOptions& options) override;
  WorkPointer gather(std::vector<Tensors>& outputs, Tensors& inputs, const ::c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, std::vector<Tensors>& inputs, const ::c10d::ScatterOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const ::c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const ::c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<i64>& output_splits,
                            std::vector<i64>& input_splits, const ::c10d::AllToAllOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs, const ::c10d::AllToAllOptions& options) override;
#if SOFTIB_TORCH_2
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const ::c10d::AllgatherOptions& options) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const ::c10d::ReduceScatterOptions& options) override;
#endif
  WorkPointer send(Tensors& tensors, int to, int tag) override;
  WorkPointer recv(Tensors& tensors, int from, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  WorkPointer barrier(const ::c10d::BarrierOptions& options) override;

  // Over the store, not over the communicator: it tells who is missing even if that one's process hangs.
  void monitoredBarrier(const ::c10d::BarrierOptions& options, bool name_all) override;

  // Ranks count their collectives from the start.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return collectives_; }

  // Ends what is under way. The group is of no use after that.
  void stop(const std::string& why) { runner_->stop(why); }
  // Of all groups of this process: before the interpreter ends.
  static void stop_all();

 private:
  // What all collectives have in common.
  struct Order {
    ::c10d::OpType type;
    const char* title;
    std::chrono::milliseconds timeout;
    std::vector<Tensors> results;
    Tensors inputs;
    std::vector<Task::Stage> stages;
    std::function<void()> after;  // once the communication has succeeded
  };
  WorkPointer launch(Order order);
  WorkPointer receive(Tensors& tensors, std::optional<int> from, int tag);
  WorkPointer reduce_sparse(const at::Tensor& tensor, const ::c10d::AllreduceOptions& options);
  WorkPointer gather_blocks(Order order, const Tensors& outputs, const Tensors& inputs,
                            const std::vector<u64>& block_bytes);
  WorkPointer scatter_reduced(Order order, const at::Tensor& output, const Tensors& inputs, const ::c10d::ReduceOp& op);
  WorkPointer exchange(Order order, const Tensors& outputs, const Tensors& inputs);

  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(size_); }
  [[nodiscard]] const at::Tensor& only(const Tensors& tensors) const;
  void check_root(i64 root) const;
  void check_list(const Tensors& list, const at::Tensor& like) const;

  const c10::intrusive_ptr<::c10d::Store> store_;
  const std::chrono::milliseconds timeout_;
  std::shared_ptr<Runner> runner_;
  std::atomic<u64> collectives_{0};
  u64 monitored_ = 0;
};

}  // namespace softib::pytorch
