// What a collective of PyTorch's gives back: whether it is done, its error, its result, and a future of that.
#pragma once

#include <ATen/core/ivalue.h>

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

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  [[nodiscard]] int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  // Once.
  void end(const coll::Error* error);
  void set_source(int rank) { source_ = rank; }

 private:
  [[nodiscard]] c10::IValue value() const;

  std::shared_ptr<Runner> runner_;
  const char* title_;
  std::vector<Tensors> results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  int source_ = -1;
};

}  // namespace softib::pytorch
