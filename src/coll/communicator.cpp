#include "coll/communicator.h"

#include <utility>

#include "coll/comm/body.h"

namespace softib::coll {

namespace {

Call reducing(Collective collective, const void* in, void* out, u64 count, const Reduction& reduction, u32 root = 0) {
  return {.collective = collective,
          .in = in,
          .out = out,
          .type = reduction.type,
          .op = reduction.op,
          .factor = reduction.factor,
          .root = root,
          .count = count};
}

Call moving(Collective collective, const void* in, void* out, u64 count, DataType type, u32 root = 0) {
  return {.collective = collective, .in = in, .out = out, .type = type, .root = root, .count = count};
}

Call with_counts(Call call, std::span<const u64> counts) {
  call.equal = false;
  call.count = 0;
  call.counts = counts;
  return call;
}

template <typename Body>
Outcome<std::unique_ptr<Communicator>> wrapped(Outcome<std::unique_ptr<Body>> body,
                                               std::unique_ptr<Communicator> (*wrap)(std::unique_ptr<Body>)) {
  if (!body) return tl::unexpected(body.error());
  return *body == nullptr ? nullptr : wrap(std::move(*body));
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Body> body) : body_(std::move(body)) {}
Communicator::~Communicator() = default;

std::unique_ptr<Communicator> Communicator::wrap(std::unique_ptr<Body> body) {
  return std::unique_ptr<Communicator>(new Communicator(std::move(body)));
}

Outcome<std::unique_ptr<Communicator>> Communicator::create(const UniqueId& id, u32 ranks, u32 rank,
                                                            const Config& config) {
  return create_on(Ground::usual(), id, ranks, rank, config);
}

Outcome<std::unique_ptr<Communicator>> Communicator::create_on(const Ground& ground, const UniqueId& id, u32 ranks,
                                                               u32 rank, const Config& config) {
  return wrapped(Body::create(ground, id, {rank, ranks}, config), &wrap);
}

Outcome<std::unique_ptr<Communicator>> Communicator::split(i32 color, i32 key) {
  return wrapped(body_->split(color, key), &wrap);
}

Outcome<std::unique_ptr<Communicator>> Communicator::shrink(std::span<const u32> excluded) {
  return wrapped(body_->shrink(excluded), &wrap);
}

u32 Communicator::rank() const { return body_->seat().rank; }
u32 Communicator::size() const { return body_->seat().ranks; }
std::span<const Member> Communicator::members() const { return body_->members(); }

Started Communicator::start_all_reduce(const void* in, void* out, u64 count, const Reduction& reduction) {
  return body_->start(reducing(Collective::all_reduce, in, out, count, reduction));
}

Started Communicator::start_reduce(const void* in, void* out, u64 count, const Reduction& reduction, u32 root) {
  return body_->start(reducing(Collective::reduce, in, out, count, reduction, root));
}

Started Communicator::start_broadcast(const void* in, void* out, u64 count, DataType type, u32 root) {
  return body_->start(moving(Collective::broadcast, in, out, count, type, root));
}

Started Communicator::start_all_gather(const void* in, void* out, u64 count, DataType type) {
  return body_->start(moving(Collective::all_gather, in, out, count, type));
}

Started Communicator::start_all_gather_v(const void* in, void* out, std::span<const u64> counts, DataType type) {
  return body_->start(with_counts(moving(Collective::all_gather, in, out, 0, type), counts));
}

Started Communicator::start_reduce_scatter(const void* in, void* out, u64 count, const Reduction& reduction) {
  return body_->start(reducing(Collective::reduce_scatter, in, out, count, reduction));
}

Started Communicator::start_reduce_scatter_v(const void* in, void* out, std::span<const u64> counts,
                                             const Reduction& reduction) {
  return body_->start(with_counts(reducing(Collective::reduce_scatter, in, out, 0, reduction), counts));
}

Started Communicator::start_gather(const void* in, void* out, u64 count, DataType type, u32 root) {
  return body_->start(moving(Collective::gather, in, out, count, type, root));
}

Started Communicator::start_gather_v(const void* in, void* out, std::span<const u64> counts, DataType type, u32 root) {
  return body_->start(with_counts(moving(Collective::gather, in, out, 0, type, root), counts));
}

Started Communicator::start_scatter(const void* in, void* out, u64 count, DataType type, u32 root) {
  return body_->start(moving(Collective::scatter, in, out, count, type, root));
}

Started Communicator::start_scatter_v(const void* in, void* out, std::span<const u64> counts, DataType type, u32 root) {
  return body_->start(with_counts(moving(Collective::scatter, in, out, 0, type, root), counts));
}

Started Communicator::start_all_to_all(const void* in, void* out, u64 count, DataType type) {
  return body_->start(moving(Collective::all_to_all, in, out, count, type));
}

Started Communicator::start_all_to_all_v(const void* in, const Parts& sent, void* out, const Parts& received,
                                         DataType type) {
  Call call = with_counts(moving(Collective::all_to_all, in, out, 0, type), sent.counts);
  call.offsets = sent.offsets;
  call.received = received.counts;
  call.received_offsets = received.offsets;
  return body_->start(call);
}

Started Communicator::start_barrier() { return body_->start({.collective = Collective::barrier}); }

Started Communicator::start_messages(std::span<const PointToPoint> messages) { return body_->start_messages(messages); }

Outcome<bool> Communicator::test(Request request) { return body_->test(request.number_); }
Done Communicator::wait(Request request) { return body_->wait(request.number_); }
Done Communicator::wait_all() { return body_->wait_all(); }
void Communicator::progress() { body_->progress(); }
void Communicator::set_wanted(Request request, bool wanted) { body_->set_wanted(request.number_, wanted); }
std::vector<u32> Communicator::awaited_by(Request request) const { return body_->awaited_by(request.number_); }

void Communicator::set_timeout(std::chrono::nanoseconds timeout) { body_->set_timeout(timeout); }
std::optional<Error> Communicator::async_error() const { return body_->error(); }
void Communicator::abort(const std::string& why) { body_->abort(why); }

Outcome<void*> Communicator::allocate(u64 bytes) { return body_->allocate(bytes); }
void Communicator::free_memory(void* memory) { body_->free_memory(memory); }

void Communicator::register_memory(const void* memory, u64 bytes) { body_->hint_memory(memory, bytes); }
void Communicator::deregister_memory(const void* memory, u64 bytes) { body_->forget_memory(memory, bytes); }

std::string Communicator::plan(std::string_view collective, u64 bytes) const { return body_->plan(collective, bytes); }

bool Communicator::has_network() const { return body_->has_network(); }

std::optional<Communicator::Planned> Communicator::planned(std::string_view collective, u64 bytes) const {
  const std::optional<Choice> choice = body_->choice(collective, bytes);
  if (!choice) return std::nullopt;
  return Planned{std::string(name_of(choice->row->algorithm)), choice->lanes, choice->window};
}

}  // namespace softib::coll
