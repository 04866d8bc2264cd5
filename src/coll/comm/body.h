// What a communicator is made of.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coll/comm/call.h"
#include "coll/comm/fate.h"
#include "coll/comm/ground.h"
#include "coll/comm/patience.h"
#include "coll/comm/plan_cache.h"
#include "coll/comm/survivors.h"
#include "coll/communicator.h"
#include "coll/execute/executor.h"
#include "coll/tune/tuner.h"

namespace softib::coll {

class Communicator::Body {
  using nanoseconds = std::chrono::nanoseconds;

 public:
  // `obstacle`: as in BootstrapOptions.
  [[nodiscard]] static Outcome<std::unique_ptr<Body>> create(
      const Ground& ground, const UniqueId& id, Seat seat, const Config& config,
      const std::function<std::optional<Error>()>& obstacle = {});
  Body(const Ground& ground, Environment environment, const Config& config, std::unique_ptr<Bootstrap> bootstrap,
       Links links, Tuner tuner);
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;
  ~Body();

  [[nodiscard]] Seat seat() const { return seat_; }
  [[nodiscard]] std::span<const Member> members() const { return bootstrap_->members(); }

  [[nodiscard]] Started start(const Call& call);
  [[nodiscard]] Started start_messages(std::span<const PointToPoint> messages);
  [[nodiscard]] Outcome<bool> test(u64 number);
  [[nodiscard]] Done wait(u64 number);
  [[nodiscard]] Done wait_all();
  void progress();
  void set_wanted(u64 number, bool wanted);
  [[nodiscard]] std::vector<u32> awaited_by(u64 number) const { return executor_.awaited_by(number); }

  void set_timeout(nanoseconds timeout) {
    if (!environment_.timeout) config_.timeout = timeout;
    judged_at_.reset();
  }
  [[nodiscard]] std::optional<Error> error() const { return fate_.error(); }
  void abort(const std::string& why) { fate_.abort(why); }

  [[nodiscard]] Outcome<std::unique_ptr<Body>> split(i32 color, i32 key);
  [[nodiscard]] Outcome<std::unique_ptr<Body>> shrink(std::span<const u32> excluded);

  [[nodiscard]] Outcome<void*> allocate(u64 bytes);
  void free_memory(void* memory);
  void hint_memory(const void* memory, u64 bytes);
  void forget_memory(const void* memory, u64 bytes);
  [[nodiscard]] std::string plan(std::string_view collective, u64 bytes) const;
  [[nodiscard]] bool has_network() const { return tuner_.landscape().network != Landscape::Network::none; }
  [[nodiscard]] std::optional<Choice> choice(std::string_view collective, u64 bytes) const;

 private:
  [[nodiscard]] Plan& plan_for(const Call& call, const Shape& shape);
  void tell_unmet(const Question& question, const Choice& choice);
  [[nodiscard]] std::span<const u64> list_of(const Call& call);
  [[nodiscard]] u64 start_run(Plan& plan, const Work& work, const Call& call);
  [[nodiscard]] Done check_messages(std::span<const PointToPoint> messages) const;
  [[nodiscard]] tl::unexpected<Error> ended();
  [[nodiscard]] Outcome<std::unique_ptr<Body>> make_part(i32 color, i32 key);
  [[nodiscard]] Outcome<std::unique_ptr<Body>> make_of(const std::vector<u32>& left);
  [[nodiscard]] std::optional<Error> obstacle_to_split();
  [[nodiscard]] std::optional<Error> obstacle_among(const std::vector<u32>& left);
  [[nodiscard]] std::optional<Error> wait_for_obstacle(const std::function<std::optional<Error>()>& look) const;

  // One turn of waiting. False: the communicator has ended.
  [[nodiscard]] bool turn();
  [[nodiscard]] bool look_around();
  [[nodiscard]] bool look_at_trouble();
  [[nodiscard]] Error broken_connection();
  void look_at_stillness(Clock::time_point now);
  void answer(Clock::time_point now);
  void judge(nanoseconds still);
  void sleep(nanoseconds still);
  void fail(const Error& error);
  void clean_up();
  [[nodiscard]] std::string task() const;

  const Ground ground_;
  const Environment environment_;
  Config config_;
  const std::unique_ptr<Bootstrap> bootstrap_;
  Links links_;
  const std::unique_ptr<MemorySource> heap_;
  HintedMemory memory_;  // what peers can read, or the heap's
  const Seat seat_;
  const Tuner tuner_;
  Fate fate_;
  Survivors survivors_;
  Executor executor_;
  PlanCache plans_;
  Patience patience_;

  u64 collectives_ = 0;
  u32 unmet_told_ = 0;  // a bit for each collective
  std::vector<u64> list_;
  std::vector<DirectMessage> messages_;
  std::map<void*, u64> allocated_;
  bool cleaned_ = false;
  std::set<u64> failed_;  // requests that the end of the communicator caught

  // Time is looked at now and then only, and so is whether anything moved since.
  u64 moves_ = 0;
  u64 moves_seen_ = 0;
  u32 polls_ = 0;
  Clock::time_point moved_at_ = Clock::now();
  Clock::time_point looked_at_ = Clock::now();
  Clock::time_point answered_at_{};
  std::optional<Clock::time_point> judged_at_;  // when those who are asked have had time to answer
};

}  // namespace softib::coll
