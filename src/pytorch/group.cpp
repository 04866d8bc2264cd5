#include "pytorch/group.h"

#include <Python.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

namespace softib::pytorch {

using std::chrono::milliseconds;

namespace {

std::mutex& groups_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::vector<Group*>& groups() {
  static std::vector<Group*> all;
  return all;
}

// Who waits for the runner's thread must not hold the interpreter: the thread may give back a tensor that Python knows.
class WithoutInterpreter {
 public:
  WithoutInterpreter() {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) state_ = PyEval_SaveThread();
  }
  WithoutInterpreter(const WithoutInterpreter&) = delete;
  WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;
  ~WithoutInterpreter() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* state_ = nullptr;
};

}  // namespace

Group::Group(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size, milliseconds timeout)
    : GroupBase(rank, size),
      store_(store),
      timeout_(timeout),
      runner_(std::make_shared<Runner>(meet(*store, {rank, size}, timeout))) {
  init();
  const std::scoped_lock lock(groups_mutex());
  groups().push_back(this);
}

Group::~Group() {
  {
    const std::scoped_lock lock(groups_mutex());
    std::erase(groups(), this);
  }
  stop("the process group was destroyed");
}

void Group::stop(const std::string& why) {
  const WithoutInterpreter free;
  runner_->stop(why);
}

void Group::stop_all() {
  const std::scoped_lock lock(groups_mutex());
  for (Group* group : groups()) group->stop("the program ended");
}

const at::Tensor& Group::only(const Tensors& tensors) const {
  TORCH_CHECK(tensors.size() == 1, "softib: a rank gives one tensor, not ", tensors.size());
  check_tensor(tensors[0]);
  return tensors[0];
}

void Group::check_root(i64 root) const {
  TORCH_CHECK(root >= 0 && root < size_, "softib: there is no rank ", root, " among ", size_);
}

// One tensor for each rank, of one type.
void Group::check_list(const Tensors& list, const at::Tensor& like) const {
  TORCH_CHECK(list.size() == count(), "softib: ", list.size(), " tensors for ", size_, " ranks");
  check_tensors(list);
  for (const at::Tensor& tensor : list)
    TORCH_CHECK(tensor.scalar_type() == like.scalar_type(), "softib: tensors of ", tensor.scalar_type(), " and ",
                like.scalar_type());
}

WorkPointer Group::launch(Order order) {
  auto work =
      c10::make_intrusive<GroupWork>(runner_, rank_, order.type, order.title, std::move(order.results), order.inputs);
  Task task;
  task.name = order.title;
  task.stages = std::move(order.stages);
  task.owner = work.get();
  if (order.timeout.count() > 0) task.deadline = Clock::now() + order.timeout;
  task.end = [work, inputs = std::move(order.inputs), after = std::move(order.after)](const coll::Error* error) {
    try {
      if (error == nullptr && after) after();
      work->end(error);
    } catch (const std::exception& thrown) {
      const coll::Error failure{coll::Code::internal_error, thrown.what()};
      work->end(&failure);
    }
  };
  runner_->submit(std::move(task));
  return noted(std::move(work));
}

WorkPointer Group::noted(WorkPointer work) {
  const std::scoped_lock lock(batching_);
  if (batch_) batch_->push_back(work);
  return work;
}

void Group::start_batch() {
  const std::scoped_lock lock(batching_);
  TORCH_CHECK(!batch_, "softib: coalescing has been started already");
  batch_.emplace();
}

WorkPointer Group::end_batch() {
  std::vector<WorkPointer> works;
  {
    const std::scoped_lock lock(batching_);
    TORCH_CHECK(batch_, "softib: coalescing ends that was not started");
    works = std::move(*batch_);
    batch_.reset();
  }
  return GroupWork::of_all(runner_, rank_, works);
}

WorkPointer Group::send(Tensors& tensors, int to, int tag) {
  check_root(to);
  const at::Tensor& tensor = only(tensors);
  const Contiguous data(tensor, Contiguous::Use::read);
  auto work = c10::make_intrusive<GroupWork>(runner_, rank_, ::c10d::OpType::SEND, "softib:send",
                                             std::vector<Tensors>{tensors}, tensors);
  runner_->send(
      static_cast<u32>(to), static_cast<u32>(tag), data.memory(), bytes_of(tensor),
      [work, data](const coll::Error* error) { work->end(error); }, work.get());
  return noted(std::move(work));
}

WorkPointer Group::receive(Tensors& tensors, std::optional<int> from, int tag) {
  const at::Tensor& tensor = only(tensors);
  const Contiguous data(tensor, Contiguous::Use::write);
  auto work =
      c10::make_intrusive<GroupWork>(runner_, rank_, from ? ::c10d::OpType::RECV : ::c10d::OpType::RECVANYSOURCE,
                                     "softib:recv", std::vector<Tensors>{tensors}, Tensors{});
  Letter letter{std::nullopt, static_cast<u32>(tag), data.memory(), bytes_of(tensor), nullptr, nullptr};
  if (from) letter.from = static_cast<u32>(*from);
  letter.end = [work, data](const coll::Outcome<u32>& source) {
    if (!source) return work->end(&source.error());
    data.finish();
    work->set_source(static_cast<int>(*source));
    work->end(nullptr);
  };
  letter.owner = work.get();
  runner_->receive(std::move(letter));
  return noted(std::move(work));
}

WorkPointer Group::recv(Tensors& tensors, int from, int tag) {
  check_root(from);
  return receive(tensors, from, tag);
}

WorkPointer Group::recvAnysource(Tensors& tensors, int tag) { return receive(tensors, std::nullopt, tag); }

void Group::monitoredBarrier(const ::c10d::BarrierOptions& options, bool name_all) {
  std::vector<std::string> names;
  for (int rank = 0; rank < size_; ++rank) names.push_back(runner_->name_of(static_cast<u32>(rank)));
  const milliseconds timeout = options.timeout.count() > 0 ? options.timeout : timeout_.load();
  monitored_barrier(*store_, {rank_, size_}, {++monitored_, timeout, name_all}, names);
}

c10::intrusive_ptr<GroupBase> Group::split(const c10::intrusive_ptr<::c10d::Store>& store,
                                           const std::vector<int>& ranks, const BaseOptions& options) {
  for (const int rank : ranks) check_root(rank);
  const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
  if (mine == ranks.end()) return {};
  return merge(store, options, static_cast<int>(mine - ranks.begin()), static_cast<int>(ranks.size()));
}

c10::intrusive_ptr<GroupBase> Group::merge(const c10::intrusive_ptr<::c10d::Store>& store, const BaseOptions& options,
                                           const int& rank, const int& size) {
  const bool given = options.defined() && options->timeout.count() > 0;
  return c10::make_intrusive<Group>(store, rank, size, given ? options->timeout : timeout_.load());
}

Group::BaseOptions Group::getBackendOptions() {
  return c10::make_intrusive<GroupBase::Options>(getBackendName(), timeout_.load());
}

void Group::setTimeout(milliseconds timeout) {
  TORCH_CHECK(timeout.count() > 0, "softib: a time-out of ", timeout.count(), " ms: it must be longer than nothing");
  timeout_ = timeout;
  runner_->set_timeout(timeout);
}

#if SOFTIB_TORCH_FROM(2, 8)
::c10d::ErrorType Group::getError() {
  const std::optional<coll::Error> error = failure();
  if (!error) return ::c10d::ErrorType::SUCCESS;
  return error->code == coll::Code::remote_error ? ::c10d::ErrorType::REMOTE_ERROR : ::c10d::ErrorType::COMM_ERROR;
}
#endif

}  // namespace softib::pytorch
