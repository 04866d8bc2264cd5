#include "pytorch/work.h"

#include <fmt/format.h>

#include <mutex>
#include <stdexcept>

namespace softib::pytorch {

namespace {

c10::intrusive_ptr<c10::ivalue::Future> future_for(const std::vector<Tensors>& results) {
  const auto list = c10::ListType::create(c10::TensorType::get());
  if (results.size() > 1) return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(list));
  return c10::make_intrusive<c10::ivalue::Future>(list);
}

}  // namespace

GroupWork::GroupWork(std::shared_ptr<Runner> runner, int rank, ::c10d::OpType type, const char* title,
                     std::vector<Tensors> results, const Tensors& inputs)
    : Work(rank, type, title, inputs),
      runner_(std::move(runner)),
      title_(title),
      results_(std::move(results)),
      future_(future_for(results_)) {}

c10::intrusive_ptr<GroupWork> GroupWork::of_all(std::shared_ptr<Runner> runner, int rank,
                                                const std::vector<c10::intrusive_ptr<::c10d::Work>>& parts) {
  auto all = c10::make_intrusive<GroupWork>(std::move(runner), rank, coalesced_type, "softib:coalesced",
                                            std::vector<Tensors>{}, Tensors{});
  struct Progress {
    std::mutex mutex;  // of what follows
    std::size_t left;
    std::exception_ptr failure;
  };
  auto progress = std::make_shared<Progress>();
  progress->left = parts.size();
  if (parts.empty()) all->end_with(nullptr);
  for (const auto& part : parts)
    part->getFuture()->addCallback([all, progress](c10::ivalue::Future& done) {
      std::exception_ptr failure;
      {
        const std::scoped_lock lock(progress->mutex);
        if (done.hasError() && !progress->failure) progress->failure = done.exception_ptr();
        if (--progress->left != 0) return;
        failure = progress->failure;
      }
      all->end_with(failure);
    });
  return all;
}

// Waiting moves the group's tasks on: no other thread has to be woken.
bool GroupWork::wait(std::chrono::milliseconds timeout) {
  std::optional<Clock::time_point> until;
  if (timeout != kNoTimeout) until = Clock::now() + timeout;
  runner_->help_until([this] { return isCompleted(); }, until);
  if (!isCompleted()) {
    const std::string awaited = runner_->what_is_awaited_by(this);
    throw std::runtime_error(fmt::format("{} of {} is not done after {} ms{}", title_,
                                         runner_->name_of(static_cast<u32>(rank_)), timeout.count(),
                                         awaited.empty() ? "" : "; it waits " + awaited));
  }
  return Work::wait();
}

void GroupWork::abort() { throw std::runtime_error("softib: one work can't be aborted, only its group"); }

int GroupWork::sourceRank() const {
  TORCH_CHECK(source_ >= 0, "softib: only what was received from any rank has a source");
  return source_;
}

std::vector<at::Tensor> GroupWork::result() {
  TORCH_CHECK(isCompleted(), "softib: no result before the work is done");
  Tensors all;
  for (const Tensors& list : results_) all.insert(all.end(), list.begin(), list.end());
  return all;
}

c10::IValue GroupWork::value() const {
  if (results_.empty()) return Tensors{};
  return results_.size() > 1 ? c10::IValue(results_) : c10::IValue(results_[0]);
}

void GroupWork::end(const coll::Error* error) {
  if (error == nullptr) return end_with(nullptr);
  end_with(std::make_exception_ptr(std::runtime_error(fmt::format("{}: {}", title_, error->text))));
}

void GroupWork::end_with(const std::exception_ptr& failure) {
  finish(failure);
#if SOFTIB_TORCH_FROM(2, 6)
  outcome_->markCompleted(
      static_cast<i64>(failure == nullptr ? ::c10d::WorkResult::SUCCESS : ::c10d::WorkResult::COMM_ERROR));
#endif
  if (failure != nullptr)
    future_->setError(failure);
  else
    future_->markCompleted(value());
}

}  // namespace softib::pytorch
