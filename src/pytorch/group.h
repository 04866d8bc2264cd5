// torch.distributed's backend "softib": PyTorch's collectives, on tensors in the processor's memory, as tasks of a
// runner.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
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
  using milliseconds = std::chrono::milliseconds;

 public:
  // Collective; throws.
  Group(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size, milliseconds timeout);
  ~Group() override;

  [[nodiscard]] const std::string getBackendName() const override { return "softib"; }

  WorkPointer broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors, const ::c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer allreduce_sparse(Tensors& tensors, const ::c10d::AllreduceOptions& options) SOFTIB_OVERRIDES_FROM_2_2 {
    return allreduce(tensors, options);
  }
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
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const ::c10d::AllgatherOptions& options) SOFTIB_OVERRIDES_FROM_2_2;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const ::c10d::ReduceScatterOptions& options) SOFTIB_OVERRIDES_FROM_2_2;
  WorkPointer send(Tensors& tensors, int to, int tag) override;
  WorkPointer recv(Tensors& tensors, int from, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  WorkPointer barrier(const ::c10d::BarrierOptions& options) override;

  // Over the store, not over the communicator: it tells who is missing even if that one's process hangs.
  void monitoredBarrier(const ::c10d::BarrierOptions& options, bool name_all) override;

  // Ranks count their collectives from the start.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return collectives_; }

  // What is asked for between these is under way at once, and the work that comes of it is done when all of that is.
  void start_batch();
  WorkPointer end_batch();
#if SOFTIB_TORCH_FROM(2, 2)  // 2.0 has another endCoalescing(), and 1.13 waits for each work
  void startCoalescing() override { start_batch(); }
  WorkPointer endCoalescing() override { return end_batch(); }
#endif

  // Groups of other ranks that meet by a store of their own. split(): of this group's, nothing for the others.
  using BaseOptions = c10::intrusive_ptr<GroupBase::Options>;
  c10::intrusive_ptr<GroupBase> split(const c10::intrusive_ptr<::c10d::Store>& store, const std::vector<int>& ranks,
                                      const BaseOptions& options) SOFTIB_OVERRIDES_FROM_2_10;
  c10::intrusive_ptr<GroupBase> merge(const c10::intrusive_ptr<::c10d::Store>& store, const BaseOptions& options,
                                      const int& rank, const int& size) SOFTIB_OVERRIDES_FROM_2_10;
  // A copy each time: who splits a group changes them.
  BaseOptions getBackendOptions() SOFTIB_OVERRIDES_FROM_2_10;
  void setTimeout(milliseconds timeout) SOFTIB_OVERRIDES_FROM_2_10;
#if SOFTIB_TORCH_FROM(2, 10)
  [[nodiscard]] bool supportsSplitting() const override { return true; }
#endif

  // Ends what is under way. The group is of no use after that.
  void stop(const std::string& why);
  void abort() SOFTIB_OVERRIDES_FROM_2_8 { stop("the process group was aborted"); }
  void shutdown() SOFTIB_OVERRIDES_FROM_2_8 { stop("the process group was destroyed"); }
  // Why no collective can succeed any more.
  [[nodiscard]] std::optional<coll::Error> failure() { return runner_->failure(); }
#if SOFTIB_TORCH_FROM(2, 8)
  ::c10d::ErrorType getError() override;
#endif
  // Of all groups of this process: before the interpreter ends.
  static void stop_all();

 private:
  // What all collectives have in common.
  struct Order {
    ::c10d::OpType type;
    const char* title;
    milliseconds timeout;
    std::vector<Tensors> results;
    Tensors inputs;
    std::vector<Task::Stage> stages;
    std::function<void()> after;  // once the communication has succeeded
  };
  WorkPointer launch(Order order);
  // Where a batch was started it is part of it.
  WorkPointer noted(WorkPointer work);
  WorkPointer receive(Tensors& tensors, std::optional<int> from, int tag);
  WorkPointer reduce_sparse(const at::Tensor& tensor, const ::c10d::AllreduceOptions& options);
  WorkPointer gather_blocks(Order order, const Tensors& outputs, const Tensors& inputs,
                            const std::vector<u64>& block_bytes);
  WorkPointer scatter_reduced(Order order, const Tensors& outputs, const std::vector<Tensors>& inputs,
                              const ::c10d::ReduceOp& op);
  WorkPointer exchange(Order order, const Tensors& outputs, const Tensors& inputs);

  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(size_); }
  [[nodiscard]] const at::Tensor& only(const Tensors& tensors) const;
  void check_root(i64 root) const;
  void check_list(const Tensors& list, const at::Tensor& like) const;

  const c10::intrusive_ptr<::c10d::Store> store_;
  std::atomic<milliseconds> timeout_;
  std::shared_ptr<Runner> runner_;
  std::atomic<u64> collectives_{0};
  u64 monitored_ = 0;
  std::mutex batching_;  // of what follows
  std::optional<std::vector<WorkPointer>> batch_;
};

}  // namespace softib::pytorch
