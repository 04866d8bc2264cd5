#include "coll/comm/body.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "coll/bootstrap/crowding.h"
#include "coll/log.h"

namespace softib::coll {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds news_apart = milliseconds(1);
// Calls that always find their work done look at the news too.
constexpr u64 starts_apart = 4096;
constexpr nanoseconds answers_apart = milliseconds(50);
constexpr nanoseconds bootstrap_lag = milliseconds(100);

// For those who are asked to answer: they may sleep, or have no processor.
nanoseconds grace(nanoseconds timeout) {
  return std::clamp<nanoseconds>(timeout / 4, milliseconds(200), std::chrono::seconds(5));
}

}  // namespace

Communicator::Body::Body(const Ground& ground, Environment environment, const Config& config,
                         std::unique_ptr<Bootstrap> bootstrap, Links links, Tuner tuner)
    : ground_(ground),
      environment_(std::move(environment)),
      config_(config),
      bootstrap_(std::move(bootstrap)),
      links_(std::move(links)),
      heap_(heap_memory()),
      memory_(links_.routes, links_.shared ? *links_.shared : *heap_),
      seat_{bootstrap_->rank(), static_cast<u32>(bootstrap_->members().size())},
      tuner_(std::move(tuner)),
      fate_(*bootstrap_, seat_.rank),
      survivors_(*bootstrap_, fate_, seat_.rank),
      executor_(links_.routes, memory_, seat_.ranks, seat_.rank),
      // Where the network combines it may do so on this machine, as in SoftIB.
      patience_(is_crowded(bootstrap_->members(), seat_.rank, has_network() ? 1 : 0)) {}

Communicator::Body::~Body() {
  if (!executor_.active().empty() || fate_.has_ended()) clean_up();
  for (const auto& [memory, bytes] : allocated_) memory_.release(memory, std::max<u64>(bytes, 1));
  bootstrap_->leave();
}

tl::unexpected<Error> Communicator::Body::ended() {
  clean_up();
  return tl::unexpected<Error>(*fate_.error());
}

std::span<const u64> Communicator::Body::list_of(const Call& call) {
  if (call.equal) return {};
  if (call.offsets.empty()) return call.counts;
  list_.clear();
  for (const std::span<const u64> part : {call.counts, call.offsets, call.received, call.received_offsets})
    list_.insert(list_.end(), part.begin(), part.end());
  return list_;
}

Plan& Communicator::Body::plan_for(const Call& call, const Shape& shape) {
  const std::span<const u64> list = list_of(call);
  if (Plan* plan = plans_.find(shape, list)) return *plan;
  const Question question = question_of(call, seat_);
  const Choice choice = tuner_.choose(question);
  if (log::enabled(LogLevel::info, Subsystem::tuning))
    log::info(static_cast<i32>(seat_.rank), Subsystem::tuning, "{}", tuner_.explain(question));
  tell_unmet(question, choice);
  Problem problem = problem_of(call, shape, seat_);
  problem.hosts = tuner_.landscape().hosts;
  return plans_.add(shape, list, make_plan(*choice.row, problem, choice.lanes, choice.window));
}

// One rank tells, once for each collective. That is no warning: a list for all collectives rarely suits them all.
void Communicator::Body::tell_unmet(const Question& question, const Choice& choice) {
  const u32 bit = 1U << static_cast<u32>(question.collective);
  if (seat_.rank != 0 || (unmet_told_ & bit) != 0) return;
  const std::string names = tuner_.unmet(question);
  if (names.empty()) return;
  unmet_told_ |= bit;
  log::info(0, Subsystem::env, "SOFTIB_ALGO: {}{} isn't done by {}, so {} does it", name_of(question.collective),
            question.equal ? "" : " of unequal counts", names, name_of(choice.row->algorithm));
}

u64 Communicator::Body::start_run(Plan& plan, const Work& work, const Call& call) {
  const u64 number = collectives_++;
  if (!environment_.checks) return executor_.start(plan, work, number, nullptr);
  const CallDigest digest = digest_of(call, number);
  return executor_.start(plan, work, number, &digest);
}

Started Communicator::Body::start(const Call& call) {
  if (fate_.has_ended()) return ended();
  const Outcome<bool> in_place = check(call, seat_);
  if (!in_place) return tl::unexpected(in_place.error());
  Shape shape{call.collective, static_cast<u8>(size_of(call.type)), *in_place, call.equal, call.root, call.count};
  Work work{.input = call.in, .output = call.out, .type = call.type, .op = call.op};
  if (call.op == Op::premul_sum) plan_scaling(call, seat_, shape, work);
  if (collectives_ % starts_apart == 0 && !look_around()) return ended();
  const u64 request = start_run(plan_for(call, shape), work, call);
  ++moves_;
  if (request != 0) return Request(request);
  fail({Code::system_error, fmt::format("no memory for {}", name_of(call.collective))});
  return ended();
}

Done Communicator::Body::check_messages(std::span<const PointToPoint> messages) const {
  const auto bad = [](const std::string& what) { return refuse(Code::invalid_argument, what); };
  for (const PointToPoint& message : messages) {
    if (message.peer >= seat_.ranks) return bad(fmt::format("a message for rank {} of {}", message.peer, seat_.ranks));
    if (message.bytes != 0 && message.memory == nullptr) return bad("a message's memory is a null pointer");
  }
  return {};
}

// Messages to oneself are copied at once: both sides of one are in one call, or they would never meet.
Started Communicator::Body::start_messages(std::span<const PointToPoint> messages) {
  if (fate_.has_ended()) return ended();
  if (auto checked = check_messages(messages); !checked) return tl::unexpected(checked.error());
  messages_.clear();
  std::vector<const PointToPoint*> out;
  std::vector<const PointToPoint*> in;
  for (const PointToPoint& message : messages) {
    const bool sends = message.kind == PointToPoint::Kind::send;
    if (message.peer == seat_.rank)
      (sends ? out : in).push_back(&message);
    else
      messages_.push_back({sends, message.peer, message.memory, message.bytes});
  }
  const auto fits = [](const PointToPoint* a, const PointToPoint* b) { return a->bytes == b->bytes; };
  if (!std::equal(out.begin(), out.end(), in.begin(), in.end(), fits))
    return refuse(Code::invalid_usage, "a rank's messages to itself need a receive of the same size in the same call");
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i]->bytes != 0) std::memmove(in[i]->memory, out[i]->memory, out[i]->bytes);
  ++moves_;
  return Request(executor_.start_messages(messages_));
}

Outcome<bool> Communicator::Body::test(u64 number) {
  progress();
  if (executor_.is_active(number)) return false;
  if (fate_.has_ended() && failed_.contains(number)) return ended();
  return true;
}

Done Communicator::Body::wait(u64 number) {
  while (executor_.is_active(number))
    if (!turn()) break;
  if (fate_.has_ended()) {
    clean_up();
    if (failed_.contains(number)) return ended();
  }
  return {};
}

Done Communicator::Body::wait_all() {
  while (!executor_.active().empty())
    if (!turn()) return ended();
  return {};
}

bool Communicator::Body::turn() {
  if (fate_.has_ended()) return false;
  if (executor_.progress()) {
    ++moves_;
    patience_.moved();
    return true;
  }
  if (executor_.is_in_trouble()) return look_around();
  return !patience_.rest() || look_around();
}

void Communicator::Body::progress() {
  if (fate_.has_ended()) return clean_up();
  if (executor_.progress()) {
    ++moves_;
    return;
  }
  if (executor_.is_in_trouble() || ++polls_ % 64 == 0) static_cast<void>(look_around());
}

// Who begins to wait has as long as for anything that begins.
void Communicator::Body::set_wanted(u64 number, bool wanted) {
  executor_.set_wanted(number, wanted);
  if (wanted) ++moves_;
}

// False: the communicator has ended. Looks at what costs a system call only now and then.
bool Communicator::Body::look_around() {
  if (fate_.has_ended()) return false;
  const Clock::time_point now = Clock::now();
  const bool trouble = executor_.is_in_trouble();
  if (!trouble && now - looked_at_ < news_apart) return true;
  looked_at_ = now;
  if (const std::optional<Error> news = fate_.look()) {
    fail({news->code, news->text + (fate_.is_told() ? std::string() : task())});
    return false;
  }
  if (trouble) return look_at_trouble();
  if (links_.routes.tree) links_.routes.tree->look(now);
  look_at_stillness(now);
  return !fate_.has_ended();
}

// A message failed. If its peer has ended, or ended the communicator, the bootstrap knows it better, and soon. The way
// that it went may need turns until it has told the peer and can tell here.
bool Communicator::Body::look_at_trouble() {
  if (const auto& mismatch = executor_.mismatch()) {
    fail({Code::invalid_usage,
          fmt::format("{} calls {} where {} calls {}", text_of(members()[mismatch->rank]), text_of(mismatch->theirs),
                      text_of(members()[seat_.rank]), text_of(mismatch->mine))});
    return false;
  }
  std::optional<Error> news;
  for (const auto end = Clock::now() + bootstrap_lag; !news && Clock::now() < end;) {
    for (const auto& transport : links_.routes.transports) transport->progress();
    const int descriptor = bootstrap_->descriptor();
    Patience::sleep({&descriptor, 1}, true, bootstrap_lag);
    news = fate_.look();
  }
  const Error error = news ? *news : broken_connection();
  fail({error.code, error.text + (fate_.is_told() ? std::string() : task())});
  return false;
}

// Why an operation failed, as the way that it went tells.
Error Communicator::Body::broken_connection() {
  const std::optional<u32> peer = executor_.failed_peer();
  if (!peer) return links_.routes.tree->failure();
  Error error{Code::remote_error, fmt::format("the connection with {} broke", text_of(members()[*peer]))};
  for (const auto& transport : links_.routes.transports)
    while (const std::optional<PeerFailure> broken = transport->broken())
      if (broken->peer == *peer) error = broken->error;
  return error;
}

void Communicator::Body::look_at_stillness(Clock::time_point now) {
  if (moves_ != moves_seen_) {
    moves_seen_ = moves_;
    moved_at_ = now;
    judged_at_.reset();
    fate_.forget_blames();
  }
  if (executor_.oldest() == nullptr) return;
  const nanoseconds still = now - moved_at_;
  if (fate_.is_asked()) answer(now);
  if (!judged_at_ && still > config_.timeout) {
    judged_at_ = now + grace(config_.timeout);
    answered_at_ = {};
    answer(now);
  } else if (judged_at_ && now > *judged_at_) {
    return judge(still);
  }
  if (patience_.is_long(still)) sleep(still);
}

// Answers make others answer, so not too many.
void Communicator::Body::answer(Clock::time_point now) {
  if (now - answered_at_ < answers_apart) return;
  answered_at_ = now;
  fate_.tell(executor_.awaited(), executor_.oldest()->collective);
}

void Communicator::Body::judge(nanoseconds still) {
  const std::vector<u32> culprits = fate_.culprits(executor_.awaited());
  const double seconds = std::chrono::duration<double>(still).count();
  if (culprits.empty())
    return fail({Code::invalid_usage,
                 fmt::format("nothing has moved for {:.1f} s: ranks wait for each other, so what they called doesn't "
                             "fit together{}",
                             seconds, task())});
  std::string names;
  for (const u32 rank : culprits) names += (names.empty() ? "" : ", ") + text_of(members()[rank]);
  fail({Code::remote_error, fmt::format("nothing has moved for {:.1f} s: {} {} no part{}", seconds, names,
                                        culprits.size() == 1 ? "takes" : "take", task())});
}

// " in all_reduce (collective 5 of rank 0 on host0 (process 42))"
std::string Communicator::Body::task() const {
  const Run* run = executor_.oldest();
  if (run == nullptr) return {};
  const std::string who = text_of(members()[seat_.rank]);
  if (run->plan == nullptr) return fmt::format(" while {} waits for messages", who);
  return fmt::format(" while {} waits in {} (its collective {})", who, name_of(run->plan->collective),
                     run->collective + 1);
}

void Communicator::Body::sleep(nanoseconds still) {
  std::vector<int> descriptors{bootstrap_->descriptor()};
  bool all_tell = true;
  for (const auto& transport : links_.routes.transports) {
    const std::span<const int> theirs = transport->descriptors();
    // It may have moved on by itself, and then doesn't tell again.
    if (!transport->arm()) return executor_.look_again();
    all_tell = all_tell && !theirs.empty();
    descriptors.insert(descriptors.end(), theirs.begin(), theirs.end());
  }
  if (links_.routes.tree) {
    if (!links_.routes.tree->arm()) return executor_.look_again();
    descriptors.push_back(links_.routes.tree->descriptor());
  }
  Patience::sleep(descriptors, all_tell, still);
}

void Communicator::Body::fail(const Error& error) {
  fate_.end(error);
  // Who was told leaves the telling to others.
  if (!fate_.is_told()) log::warn(static_cast<i32>(seat_.rank), "{}", fate_.error()->text);
  clean_up();
}

// After this nothing reads or writes callers' memory any more.
void Communicator::Body::clean_up() {
  if (std::exchange(cleaned_, true)) return;
  for (u32 peer = 0; peer < seat_.ranks; ++peer)
    if (peer != seat_.rank) links_.routes.to(peer).give_up(peer);
  if (links_.routes.tree) links_.routes.tree->give_up();
  for (const auto& run : executor_.active()) failed_.insert(run->number);
  executor_.drop_all();
}

Outcome<void*> Communicator::Body::allocate(u64 bytes) {
  void* made = memory_.allocate(std::max<u64>(bytes, 1));
  if (made == nullptr) return refuse(Code::system_error, fmt::format("no memory of {} bytes", bytes));
  allocated_[made] = bytes;
  return made;
}

void Communicator::Body::free_memory(void* made) {
  const auto entry = allocated_.find(made);
  if (entry == allocated_.end()) return;
  memory_.release(made, std::max<u64>(entry->second, 1));
  allocated_.erase(entry);
}

void Communicator::Body::hint_memory(const void* given, u64 bytes) { links_.routes.hint_memory(given, bytes); }

void Communicator::Body::forget_memory(const void* given, u64 bytes) { links_.routes.forget_memory(given, bytes); }

std::string Communicator::Body::plan(std::string_view collective, u64 bytes) const {
  const std::optional<Collective> known = collective_from_name(collective);
  if (!known) return fmt::format("no collective is called {}", collective);
  return tuner_.explain({*known, bytes});
}

std::optional<Choice> Communicator::Body::choice(std::string_view collective, u64 bytes) const {
  const std::optional<Collective> known = collective_from_name(collective);
  if (!known) return std::nullopt;
  return tuner_.choose({*known, bytes});
}

}  // namespace softib::coll
