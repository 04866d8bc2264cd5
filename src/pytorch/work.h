// What a collective of PyTorch's gives back: whether it is done, its error, its result, and a future of that.
#pragma once

#include <ATen/core/ivalue.h>

#include <exception>
#include <memory>
#include <vector>

#include "coll/error.h"
#include "pytorch/runner.h"
#include "pytorch/tensors.h"

namespace softib::pytorch {

class GroupWork : public ::c10d::Work {
 public:
  // `results`: one list for each input tensor, as PyTorch's own backends give them.
  GroupWork(std::shared_ptr<Runner> runner, int rank, ::c10d::OpType type, const char* title,
            std::vector<Tensors> results, const Tensors& inputs);
  // Done when all the parts are, with the error of the first one that failed.
  static c10::intrusive_ptr<GroupWork> of_all(std::shared_ptr<Runner> runner, int rank,
                                              const std::vector<c10::intrusive_ptr<::c10d::Work>>& parts);

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  [[nodiscard]] int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
#if SOFTIB_TORCH_FROM(2, 6)
  // Of a ::c10d::WorkResult; never an error itself.
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override { return outcome_; }
#endif

  // Once.
  void end(const coll::Error* error);
  void set_source(int rank) { source_ = rank; }

 private:
  [[nodiscard]] c10::IValue value() const;
  void end_with(const std::exception_ptr& failure);

  std::shared_ptr<Runner> runner_;
  const char* title_;
  std::vector<Tensors> results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
#if SOFTIB_TORCH_FROM(2, 6)
  c10::intrusive_ptr<c10::ivalue::Future> outcome_ = c10::make_intrusive<c10::ivalue::Future>(c10::AnyEnumType::get());
#endif
  int source_ = -1;
};

}  // namespace softib::pytorch
