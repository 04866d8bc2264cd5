// Collectives between ranks: the public C++ interface. softib_coll.h is the same for C, shaped like NCCL's.
//
// All ranks of a communicator call the same collectives in the same order, with counts that fit each other. Nothing
// moves while no thread is inside a call on the communicator: see "The progress rule" in docs/design/collectives.md.
// One thread at a time may use a communicator; abort() and async_error() may be called by any.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coll/bootstrap/bootstrap.h"
#include "coll/error.h"
#include "coll/types.h"

namespace softib::coll {

struct Ground;

// What is combined, and how.
struct Reduction {
  DataType type = DataType::float32;
  Op op = Op::sum;
  Scalar factor{};  // Op::premul_sum: of `type`, each rank its own
};

// A message of send_receive(): to or from a peer, by a call that has any number of both.
struct PointToPoint {
  enum class Kind : u8 { send, receive } kind = Kind::send;
  u32 peer = 0;
  void* memory = nullptr;  // only read by a send
  u64 bytes = 0;
};

struct Config {
  // How long a call may wait for others without anything moving before it gives up, naming who is to blame.
  // SOFTIB_TIMEOUT (seconds) overrides it.
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
  std::string name;  // in messages and of SOFTIB_DEBUG=INFO
};

// A collective under way. Cheap to copy; memory given to the collective must live, and be left alone, until it is done.
class Request {
 public:
  Request() = default;
  [[nodiscard]] bool valid() const { return number_ != 0; }

 private:
  friend class Communicator;
  explicit Request(u64 number) : number_(number) {}
  u64 number_ = 0;
};

using Started = Outcome<Request>;
using Done = Outcome<void>;

class Communicator {
 public:
  // Collective. Blocks until all ranks have come, and connects them: shared memory within a host, queue pairs between
  // hosts, TCP where no verbs device works (said loudly).
  [[nodiscard]] static Outcome<std::unique_ptr<Communicator>> create(const UniqueId& id, u32 ranks, u32 rank,
                                                                     const Config& config = {});
  // The same over other ways to meet and to connect (coll/comm/ground.h): for tests.
  [[nodiscard]] static Outcome<std::unique_ptr<Communicator>> create_on(const Ground& ground, const UniqueId& id,
                                                                        u32 ranks, u32 rank, const Config& config = {});
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] u32 rank() const;
  [[nodiscard]] u32 size() const;
  [[nodiscard]] std::span<const Member> members() const;  // by rank

  // Ranks of one color become a communicator, ordered by key, then by rank here. Collective; a negative color gets
  // none.
  [[nodiscard]] Outcome<std::unique_ptr<Communicator>> split(i32 color, i32 key);
  // After a failure: a communicator of those that are left, as all of them see it. Collective among them.
  [[nodiscard]] Outcome<std::unique_ptr<Communicator>> shrink(std::span<const u32> excluded = {});

  // Start a collective. Counts are in elements. In place: out == in where both have one size, else the smaller buffer
  // is this rank's own block of the larger one; any other overlap is refused.
  [[nodiscard]] Started start_all_reduce(const void* in, void* out, u64 count, const Reduction& reduction);
  [[nodiscard]] Started start_reduce(const void* in, void* out, u64 count, const Reduction& reduction, u32 root);
  [[nodiscard]] Started start_broadcast(const void* in, void* out, u64 count, DataType type, u32 root);
  // `count`: elements of each rank; out has size() * count.
  [[nodiscard]] Started start_all_gather(const void* in, void* out, u64 count, DataType type);
  // counts[r]: what rank r gives.
  [[nodiscard]] Started start_all_gather_v(const void* in, void* out, std::span<const u64> counts, DataType type);
  // `count`: elements that each rank gets; in has size() * count.
  [[nodiscard]] Started start_reduce_scatter(const void* in, void* out, u64 count, const Reduction& reduction);
  [[nodiscard]] Started start_reduce_scatter_v(const void* in, void* out, std::span<const u64> counts,
                                               const Reduction& reduction);
  [[nodiscard]] Started start_gather(const void* in, void* out, u64 count, DataType type, u32 root);
  [[nodiscard]] Started start_gather_v(const void* in, void* out, std::span<const u64> counts, DataType type, u32 root);
  [[nodiscard]] Started start_scatter(const void* in, void* out, u64 count, DataType type, u32 root);
  [[nodiscard]] Started start_scatter_v(const void* in, void* out, std::span<const u64> counts, DataType type,
                                        u32 root);
  // `count`: elements from each rank to each.
  [[nodiscard]] Started start_all_to_all(const void* in, void* out, u64 count, DataType type);
  // By rank; offsets in elements. What I send to r is what r expects of me.
  struct Parts {
    std::span<const u64> counts;
    std::span<const u64> offsets;
  };
  [[nodiscard]] Started start_all_to_all_v(const void* in, const Parts& sent, void* out, const Parts& received,
                                           DataType type);
  [[nodiscard]] Started start_barrier();
  // All messages of one call are under way at once, as in an ncclGroup. Only the ranks that take part call it. Between
  // two ranks, the n-th send goes to the n-th receive.
  [[nodiscard]] Started start_messages(std::span<const PointToPoint> messages);

  // Moves everything of the communicator on. test() doesn't wait: true once the collective is done. wait() waits.
  // An error is the communicator's: everything under way on it has failed, and only abort, shrink and destruction are
  // left. Asking again about a request that is done gives success.
  [[nodiscard]] Outcome<bool> test(Request request);
  [[nodiscard]] Done wait(Request request);
  [[nodiscard]] Done wait_all();  // for all that is under way
  void progress();
  // For messages that may never come: while nobody wants them their senders are not waited for, and so not to blame.
  void set_wanted(Request request, bool wanted);
  // The ranks without which it doesn't go on now; they may wait for others themselves.
  [[nodiscard]] std::vector<u32> awaited_by(Request request) const;

  // As Config::timeout has it, from now on; SOFTIB_TIMEOUT still overrides it.
  void set_timeout(std::chrono::nanoseconds timeout);

  // The error that ended the communicator, if one did. Any thread.
  [[nodiscard]] std::optional<Error> async_error() const;
  // Calls on this and on all other ranks' communicator return an error soon. Any thread.
  void abort(const std::string& why = "aborted");

  // Memory that peers on the same host can read and write in place, and that is registered with the HCAs: the fastest
  // there is for buffers of collectives. Page-aligned. Given back by free_memory(), or with the communicator.
  [[nodiscard]] Outcome<void*> allocate(u64 bytes);
  void free_memory(void* memory);

  // Memory of the caller's that collectives use again and again: registered with the HCAs once. Nothing depends on it.
  void register_memory(const void* memory, u64 bytes);
  void deregister_memory(const void* memory, u64 bytes);

  // Chosen algorithm and lanes for a collective of so many bytes, as SOFTIB_DEBUG=INFO SOFTIB_DEBUG_SUBSYS=TUNING says.
  [[nodiscard]] std::string plan(std::string_view collective, u64 bytes) const;
  // The same for programs; nothing where no collective is called so.
  struct Planned {
    std::string algorithm;
    u32 lanes = 1;
    u32 window = 1;
  };
  // Nodes in the network combine for this one where SOFTIB_ALGO, a tuning file or the model says so.
  [[nodiscard]] bool has_network() const;
  [[nodiscard]] std::optional<Planned> planned(std::string_view collective, u64 bytes) const;

 private:
  class Body;
  explicit Communicator(std::unique_ptr<Body> body);
  [[nodiscard]] static std::unique_ptr<Communicator> wrap(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace softib::coll
