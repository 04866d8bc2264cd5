// Runs schedules over transports: several lanes of several collectives at once, each step a message or a piece of work
// done here. No threads and no waiting; whoever calls progress() does the work.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "coll/execute/plan.h"
#include "coll/execute/run.h"
#include "coll/execute/scratch.h"
#include "coll/transport/transport.h"

namespace softib::coll {

// Which transport reaches a peer. Transports stand in the order of how dear it is to ask them, the cheapest first.
struct Routes {
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<u8> by_peer;  // an index of transports; of oneself it says nothing
  // Where this rank is one that gives the network what it combines; else nullptr.
  std::unique_ptr<Tree> tree;

  [[nodiscard]] Transport& to(u32 peer) const { return *transports[by_peer[peer]]; }
  // Tell all transports; see Transport.
  void hint_memory(const void* memory, u64 bytes) const;
  void forget_memory(const void* memory, u64 bytes) const;
};

// A source whose memory all transports are told of.
class HintedMemory final : public MemorySource {
 public:
  HintedMemory(Routes& routes, MemorySource& source) : routes_(routes), source_(source) {}
  [[nodiscard]] void* allocate(u64 bytes) override;
  void release(void* memory, u64 bytes) override;

 private:
  Routes& routes_;
  MemorySource& source_;
};

// Memory that goes to a peer or comes from it.
struct DirectMessage {
  bool sends = false;
  u32 peer = 0;
  void* memory = nullptr;
  u64 bytes = 0;
};

class Executor {
 public:
  Executor(Routes& routes, MemorySource& memory, u32 ranks, u32 rank);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  ~Executor();

  // Both give the number of the run; 0: no memory for its scratch. What can be done at once is done.
  // With `checked` ranks first compare what they call: see mismatch().
  [[nodiscard]] u64 start(Plan& plan, const Work& work, u64 collective, const CallDigest* checked);
  [[nodiscard]] u64 start_messages(std::span<const DirectMessage> messages);

  // Moves everything on. True if anything moved.
  bool progress();
  // Operations may have ended without progress(): it looks at all of them next time.
  void look_again() { begun_ = true; }

  [[nodiscard]] bool is_active(u64 number) const;
  [[nodiscard]] std::span<const std::unique_ptr<Run>> active() const { return active_; }

  // A peer with whom an operation has failed, since the beginning.
  [[nodiscard]] std::optional<u32> failed_peer() const { return failed_peer_; }
  // A rank that calls something else than this one does.
  struct Mismatch {
    u32 rank = 0;
    CallDigest mine, theirs;
  };
  [[nodiscard]] const std::optional<Mismatch>& mismatch() const { return mismatch_; }

  // A failure or a mismatch: runs don't end any more.
  [[nodiscard]] bool is_in_trouble() const { return failed_peer_ || mismatch_ || tree_failed_; }

  // Receives that nobody waits for any more, or again: runs that are not wanted count for nothing in what follows.
  void set_wanted(u64 number, bool wanted);
  // Peers that anything waits for, the oldest run's; if that is messages, of all messages, as they have no order. Each
  // once.
  [[nodiscard]] std::vector<u32> awaited() const;
  [[nodiscard]] std::vector<u32> awaited_by(u64 number) const;
  // What the oldest run is, and how many collectives came before it.
  [[nodiscard]] const Run* oldest() const;

  // Forgets all runs: the transports have given up all peers, so nothing uses the runs' memory any more.
  void drop_all();

 private:
  [[nodiscard]] std::unique_ptr<Run> idle_run(Plan& plan);
  [[nodiscard]] bool scale_input(Run& run);
  [[nodiscard]] bool take_scratch(Run& run);
  void lend_buffers(Run& run);
  void take_buffers_back(Run& run);
  void begin_check(Run& run);
  bool end_check(Run& run);
  void begin_lanes(Run& run);
  void next_lane(Run& run, LaneRun& lane);
  bool advance(Run& run);
  bool advance_lane(Run& run, LaneRun& lane);
  void begin_round(Run& run, LaneRun& lane);
  void post(Run& run, LaneRun& lane, u32 step);
  void post_send(Run& run, LaneRun& lane, u32 number, const Step& step);
  void post_receive(Run& run, LaneRun& lane, u32 number, const Step& step);
  void reduce(Run& run, LaneRun& lane, const Step& step);
  void post_aggregation(Run& run, LaneRun& lane, u32 number, const Step& step);
  void begin_send(Slot& slot);
  void begin_receive(Slot& slot);
  bool collect(LaneRun& lane, std::vector<u32>& pending);
  void add_awaited(const Run& run, std::vector<u32>& peers) const;
  void note_end(const Slot& slot);
  void finish(std::size_t index);
  void release(std::unique_ptr<Run> run);

  Routes& routes_;
  Scratch scratch_;
  u32 ranks_;
  u32 rank_;
  u64 next_number_ = 1;
  std::vector<std::unique_ptr<Run>> active_;  // the oldest first
  std::vector<std::unique_ptr<Run>> idle_messages_;
  std::vector<u32> pending_;   // by transport: operations that it has
  std::vector<u32> sent_;      // messages of start_messages(), by peer
  std::vector<u32> received_;  // likewise
  u32 pending_tree_ = 0;
  bool tree_failed_ = false;  // the network gave up
  std::vector<const void*> operands_;
  u32 rounds_ = 0;      // of progress()
  bool begun_ = false;  // operations, since they were last looked at
  bool ended_ = false;
  std::optional<u32> failed_peer_;
  std::optional<Mismatch> mismatch_;
};

}  // namespace softib::coll
