#include "pytorch/runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <utility>

namespace softib::pytorch {

using coll::Code;
using coll::Communicator;
using coll::Error;

namespace {

// What a thread does when nothing moved. Who waits for an answer has nothing better to do with its processor; the
// runner's own thread leaves it to the program.
class Rest {
 public:
  explicit Rest(u32 yields) : yields_(yields) {}

  void moved() { idle_ = 0; }
  void rest() {
    if (++idle_ < yields_)
      ::sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(30));
  }

 private:
  u32 yields_;
  u32 idle_ = 0;
};

constexpr u32 yields_of_helper = 2000;
constexpr u32 yields_of_thread = 50;

}  // namespace

Runner::Runner(std::unique_ptr<Communicator> communicator)
    : communicator_(std::move(communicator)), mailbox_(communicator_->size(), communicator_->rank()) {
  for (const coll::Member& member : communicator_->members()) names_.push_back(coll::name_of(member));
  thread_ = std::thread([this] { work(); });
}

Runner::~Runner() { stop("the process group was destroyed"); }

std::string Runner::name_of(u32 rank) const {
  return rank < names_.size() ? names_[rank] : fmt::format("rank {}", rank);
}

// Why it can't be done any more, and then `item` stays as it is.
template <typename Queue>
std::optional<Error> Runner::ask(Queue& queue, typename Queue::value_type& item) {
  {
    const std::scoped_lock lock(asking_);
    if (stopped_) return stopped_;
    ++unfinished_;
    queue.push_back(std::move(item));
  }
  asked_.notify_one();
  return std::nullopt;
}

void Runner::submit(Task task) {
  if (const auto stopped = ask(tasks_, task)) task.end(&*stopped);
}

void Runner::send(u32 to, u64 tag, const void* memory, u64 bytes, std::function<void(const Error*)> end,
                  const void* owner) {
  submit({"send", {mailbox_.sending(to, tag, memory, bytes)}, std::nullopt, std::move(end), owner});
}

void Runner::receive(Letter letter) {
  if (const auto stopped = ask(letters_, letter)) letter.end(tl::unexpected(*stopped));
}

void Runner::work() {
  ::pthread_setname_np(::pthread_self(), "softib-torch");
  ::prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  Rest rest(yields_of_thread);
  for (;;) {
    {
      std::unique_lock lock(asking_);
      asked_.wait(lock, [this] { return stopped_ || (unfinished_.load() != 0 && helpers_ == 0); });
      if (stopped_) return;
    }
    if (turn())
      rest.moved();
    else
      rest.rest();
  }
}

void Runner::help_until(const std::function<bool()>& done, std::optional<Clock::time_point> until) {
  const auto count = [this](u32 change) {
    const std::scoped_lock lock(asking_);
    helpers_ += change;
  };
  count(1);
  Rest rest(yields_of_helper);
  while (!done() && (!until || Clock::now() < *until)) {
    if (turn())
      rest.moved();
    else
      rest.rest();
  }
  count(~u32{0});
  if (!is_idle()) asked_.notify_one();
}

// True: something ended or began. Ends are called without locks, as they may ask for more.
bool Runner::turn() {
  Mailbox::Due due;
  bool moved = false;
  {
    const std::scoped_lock driving(driving_);
    if (communicator_ == nullptr) return false;
    begin_tasks(due);
    moved = look_at_tasks(due);
    mailbox_.move_on(*communicator_, due);
    if (mailbox_.is_waiting())
      if (const std::optional<Error> error = communicator_->async_error()) mailbox_.fail_all(*error, due);
  }
  moved = moved || !due.empty();
  run(due);
  return moved;
}

void Runner::run(Mailbox::Due& due) {
  for (auto& end : due) {
    end();
    --unfinished_;
  }
  due.clear();
}

void Runner::begin_tasks(Mailbox::Due& due) {
  const bool held = std::any_of(active_.begin(), active_.end(),
                                [](const Active& active) { return active.next_stage < active.task.stages.size(); });
  std::deque<Task> tasks;
  std::vector<Letter> letters;
  {
    const std::scoped_lock lock(asking_);
    letters.swap(letters_);
    while (!held && !tasks_.empty()) {
      tasks.push_back(std::move(tasks_.front()));
      tasks_.pop_front();
      if (tasks.back().stages.size() > 1) break;
    }
  }
  for (Letter& letter : letters) mailbox_.expect(std::move(letter), due);
  for (Task& task : tasks) {
    active_.push_back({std::move(task), 0, {}, {}});
    begin_stage(active_.back());
  }
}

void Runner::begin_stage(Active& active) {
  active.requests.clear();
  if (active.next_stage == active.task.stages.size()) return;
  if (auto begun = active.task.stages[active.next_stage](*communicator_, active.requests); !begun)
    active.error = begun.error();
  ++active.next_stage;
}

// All its requests are tested even if one has failed: none uses the task's memory after that.
bool Runner::is_done(Active& active) {
  while (!active.requests.empty()) {
    const auto done = communicator_->test(active.requests.back());
    if (done && !*done) return false;
    if (!done) active.error = done.error();
    active.requests.pop_back();
  }
  return active.error || active.next_stage == active.task.stages.size();
}

// The next ones in the chain; the last one may be another, which only they know.
std::string Runner::awaited_by(const Active& active) const {
  std::vector<u32> ranks;
  for (const coll::Request& request : active.requests)
    for (const u32 rank : communicator_->awaited_by(request)) ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::vector<std::string> names;
  for (const u32 rank : ranks) names.push_back(names_[rank]);
  return names.empty() ? "" : fmt::format("for {}", fmt::join(names, ", "));
}

std::string Runner::what_is_awaited_by(const void* owner) {
  const std::scoped_lock driving(driving_);
  for (const Active& active : active_)
    if (active.task.owner == owner) return awaited_by(active);
  if (const Letter* letter = mailbox_.find_awaited(owner))
    return fmt::format("for a message with tag {} from {}", letter->tag,
                       letter->from ? names_[*letter->from] : "any rank");
  const std::scoped_lock asking(asking_);
  const auto is_of_owner = [owner](const Task& task) { return task.owner == owner; };
  if (active_.empty() || std::none_of(tasks_.begin(), tasks_.end(), is_of_owner)) return "";
  const std::string first = awaited_by(active_.front());
  return fmt::format("for {} before it{}", active_.front().task.name, first.empty() ? "" : ", which waits " + first);
}

void Runner::set_timeout(std::chrono::nanoseconds timeout) {
  const std::scoped_lock driving(driving_);
  if (communicator_ != nullptr) communicator_->set_timeout(timeout);
}

std::optional<Error> Runner::failure() {
  {
    const std::scoped_lock asking(asking_);
    if (stopped_) return stopped_;
  }
  const std::scoped_lock driving(driving_);
  return communicator_ == nullptr ? std::nullopt : communicator_->async_error();
}

void Runner::check_deadline(const Active& active) {
  if (!active.task.deadline || Clock::now() < *active.task.deadline) return;
  const std::string awaited = awaited_by(active);
  communicator_->abort(fmt::format("{} did not end in the time that {} gave it{}", active.task.name,
                                   names_[communicator_->rank()], awaited.empty() ? "" : "; it waited " + awaited));
}

bool Runner::look_at_tasks(Mailbox::Due& due) {
  bool moved = false;
  for (std::size_t i = 0; i < active_.size();) {
    Active& active = active_[i];
    if (!is_done(active)) {
      check_deadline(active);
      if (active.requests.empty()) {
        begin_stage(active);
        moved = true;
      } else {
        ++i;
      }
      continue;
    }
    due.emplace_back(
        [end = std::move(active.task.end), error = std::move(active.error)] { end(error ? &*error : nullptr); });
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return moved || !due.empty();
}

void Runner::fail_all(const Error& error, Mailbox::Due& due) {
  const auto fail = [&](Task& task) { due.emplace_back([end = std::move(task.end), error] { end(&error); }); };
  for (Active& active : active_) fail(active.task);
  active_.clear();
  mailbox_.fail_all(error, due);
  const std::scoped_lock lock(asking_);
  for (Task& task : tasks_) fail(task);
  tasks_.clear();
  for (Letter& letter : letters_)
    due.emplace_back([end = std::move(letter.end), error] { end(tl::unexpected<Error>(error)); });
  letters_.clear();
}

void Runner::stop(const std::string& why) {
  const Error error{Code::invalid_usage, why};
  {
    const std::scoped_lock lock(asking_);
    if (stopped_) return;
    stopped_ = error;
  }
  asked_.notify_all();
  thread_.join();
  Mailbox::Due due;
  {
    const std::scoped_lock driving(driving_);
    if (!active_.empty()) communicator_->abort(why);
    communicator_.reset();  // after that nothing uses the tasks' memory
    fail_all(error, due);
  }
  run(due);
}

}  // namespace softib::pytorch
