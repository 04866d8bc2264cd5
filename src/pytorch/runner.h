// Carries out what a process group is asked for on one communicator: begins tasks in the order of asking, moves all of
// them on, ends them. A thread of its own does so, and in its place whoever waits: an answer then needs no waking of
// another thread. Knows nothing of PyTorch.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "coll/communicator.h"
#include "pytorch/mailbox.h"
#include "pytorch/task.h"

namespace softib::pytorch {

class Runner {
 public:
  explicit Runner(std::unique_ptr<coll::Communicator> communicator);
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner();

  // Any thread. Tasks begin in the order in which these return.
  void submit(Task task);
  void send(u32 to, u64 tag, const void* memory, u64 bytes, std::function<void(const coll::Error*)> end,
            const void* owner = nullptr);
  void receive(Letter letter);

  // Returns when `done` is true, or the time has come. Moves tasks on meanwhile.
  void help_until(const std::function<bool()>& done, std::optional<Clock::time_point> until);

  // For people: what the owner's task or letter waits for, "for rank 1 on host1" say. Empty: it can't be told.
  [[nodiscard]] std::string what_is_awaited_by(const void* owner);

  // Ends what is under way with an error, and the communicator. No thread of this is left.
  void stop(const std::string& why);

  // How long nothing may move, from now on.
  void set_timeout(std::chrono::nanoseconds timeout);
  // Why nothing can succeed any more, if that is so.
  [[nodiscard]] std::optional<coll::Error> failure();

  [[nodiscard]] std::string name_of(u32 rank) const;  // "rank 3 on host1"
  // How the runner's thread waits for work, for who needs to know that it is idle: nothing asked for is unfinished.
  [[nodiscard]] bool is_idle() const { return unfinished_.load() == 0; }

 private:
  struct Active {
    Task task;
    std::size_t next_stage = 0;
    std::vector<coll::Request> requests;
    std::optional<coll::Error> error;
  };

  template <typename Queue>
  [[nodiscard]] std::optional<coll::Error> ask(Queue& queue, typename Queue::value_type& item);
  void work();
  bool turn();
  void begin_tasks(Mailbox::Due& due);
  void begin_stage(Active& active);
  bool look_at_tasks(Mailbox::Due& due);
  [[nodiscard]] bool is_done(Active& active);
  [[nodiscard]] std::string awaited_by(const Active& active) const;
  void check_deadline(const Active& active);
  void fail_all(const coll::Error& error, Mailbox::Due& due);
  void run(Mailbox::Due& due);

  std::vector<std::string> names_;

  std::mutex driving_;  // of all that follows, and of the communicator
  std::unique_ptr<coll::Communicator> communicator_;
  Mailbox mailbox_;
  std::deque<Active> active_;

  std::mutex asking_;  // of what follows
  std::condition_variable asked_;
  std::deque<Task> tasks_;
  std::vector<Letter> letters_;
  std::optional<coll::Error> stopped_;
  u32 helpers_ = 0;
  std::atomic<u64> unfinished_{0};

  std::thread thread_;
};

}  // namespace softib::pytorch
