// One job's node with its queue pairs: what the state machine asks for is done by verbs here.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aggregation/node.h"
#include "aggregation/watch.h"
#include "coll/innetwork/pair.h"

namespace softib::aggregation {

struct LinkTiming {
  std::chrono::nanoseconds keep_alive = std::chrono::seconds(1);
  std::chrono::nanoseconds arrival = std::chrono::seconds(60);  // of members, and of the word to connect
  std::chrono::nanoseconds farewell = std::chrono::seconds(2);  // to tell of a failure
};

class NodeLinks final : public Watched {
 public:
  [[nodiscard]] static coll::Outcome<std::unique_ptr<NodeLinks>> make(const coll::innetwork::OpenPort& port,
                                                                      const coll::innetwork::PrepareJob& words,
                                                                      const LinkTiming& timing, Time now);
  // Called from turn() once is_over().
  void when_over(std::function<void()> told) { when_over_ = std::move(told); }

  [[nodiscard]] coll::innetwork::Prepared ends() const;
  [[nodiscard]] coll::Outcome<void> connect(const coll::innetwork::ConnectJob& words);
  // The job ends here because it ends elsewhere.
  void dismiss(const std::string& why, Time now);

  bool turn(Time now) override;
  void on_time(Time now);
  [[nodiscard]] bool arm() override { return completions_.arm(); }
  [[nodiscard]] int descriptor() const override { return completions_.descriptor(); }

  // Nothing is to be done any more: it can be destroyed.
  [[nodiscard]] bool is_over() const { return over_; }
  [[nodiscard]] const Node& node() const { return *node_; }

 private:
  struct Link {
    coll::innetwork::Pair pair;
    bool lost = false;
    bool probing = false;
    std::deque<u32> sends{};  // holders of what is under way, the oldest first
    std::optional<Time> heard{};
  };
  enum class Task : u8 { receive, send, probe };

  NodeLinks(const coll::innetwork::OpenPort& port, const coll::innetwork::PrepareJob& words, const LinkTiming& timing,
            Time now);
  [[nodiscard]] coll::Outcome<void> make_memory();
  [[nodiscard]] coll::Outcome<void> make_pairs();
  [[nodiscard]] u32 depth() const { return job_.quota.outstanding + 4; }
  [[nodiscard]] std::size_t message_bytes() const;
  [[nodiscard]] std::span<std::byte> receive_memory(u64 receive) const;
  void post(u64 receive);
  void complete(const ibv_wc& completion, Time now);
  void take(u32 link, u64 receive, u32 bytes);
  void perform(Time now);
  void send(u32 link, const Action& action, Time now);
  void lose(u32 link, const std::string& why, Time now);
  void look_at_end(Time now);
  void probe_silent(Time now);
  [[nodiscard]] bool is_parent(u32 link) const { return link == job_.children.size(); }
  [[nodiscard]] bool is_needed(u32 link) const;
  [[nodiscard]] std::string name_of(u32 link) const;

  coll::innetwork::OpenPort port_;
  LinkTiming timing_;
  NodeJob job_;
  u32 members_ = 0;
  u8 sl_ = 0;
  coll::innetwork::Region receives_;
  coll::innetwork::Region places_;
  coll::innetwork::Completions completions_;
  std::unique_ptr<Node> node_;
  std::vector<Link> links_;  // the children, then the parent if there is one
  std::vector<Action> actions_;
  std::vector<Action> spare_;  // whose memory is used again
  Time made_;
  bool connected_ = false;
  bool over_ = false;
  std::function<void()> when_over_;
  std::optional<Time> failed_;
};

}  // namespace softib::aggregation
