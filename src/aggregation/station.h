// An aggregation node: the end node of a switch, with a queue pair for words of the manager and the jobs that it has.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "aggregation/node_links.h"
#include "aggregation/options.h"
#include "aggregation/watch.h"
#include "coll/innetwork/post.h"
#include "coll/innetwork/subnet.h"

namespace softib::aggregation {

// A port that this program has opened.
struct StationPort {
  coll::verbs::ContextOwner context;
  coll::verbs::DomainOwner domain;
  coll::innetwork::OpenPort open;
  u64 guid = 0;
  std::array<u8, 16> gid{};
  std::string description;  // "an0 (mlx5_0:1)"

  // Looks again at what the subnet manager may have changed. False: it isn't active.
  bool refresh();
  // False: the device has been taken out. Hears of it by the events of its context.
  [[nodiscard]] bool is_there();

 private:
  bool gone_ = false;
};
using StationPorts = std::vector<std::unique_ptr<StationPort>>;

// All InfiniBand ports here, or those of the devices that are named; but not those of devices that are known.
[[nodiscard]] coll::Outcome<StationPorts> open_ports(const std::vector<std::string>& devices,
                                                     const StationPorts& known);

class Station final : public Watched {
 public:
  using Log = std::function<void(const std::string&)>;

  [[nodiscard]] static coll::Outcome<std::unique_ptr<Station>> make(StationPort& port, const Options& options,
                                                                    Watch& watch, Log log);
  ~Station() override;

  // Where the manager is; nothing: nobody knows.
  void set_manager(std::optional<coll::innetwork::Correspondent> manager) { manager_ = manager; }
  // Words of the manager; jobs have turns of their own.
  bool turn(Time now) override;
  void on_time(Time now);
  [[nodiscard]] bool arm() override { return post_->arm(); }
  [[nodiscard]] int descriptor() const override { return post_->descriptor(); }
  [[nodiscard]] bool is_welcome() const { return welcome_; }
  [[nodiscard]] std::size_t jobs() const { return jobs_.size(); }

 private:
  using Words = coll::innetwork::Words;

  Station(StationPort& port, const Options& options, Watch& watch, Log log)
      : port_(port), options_(options), watch_(watch), log_(std::move(log)) {}
  void take(const coll::innetwork::Mailbox::Event& event, Time now);
  [[nodiscard]] Words answer_to(const Words& words, Time now);
  [[nodiscard]] Words prepare(const coll::innetwork::PrepareJob& words, Time now);
  [[nodiscard]] Words connect(const coll::innetwork::ConnectJob& words);
  void dismiss(u32 job, const std::string& why, Time now);
  void say_hello(Time now);
  bool bury(Time now);

  StationPort& port_;
  const Options& options_;
  Watch& watch_;
  Log log_;
  std::unique_ptr<coll::innetwork::Post> post_;
  std::optional<coll::innetwork::Correspondent> manager_;
  std::map<u32, std::unique_ptr<NodeLinks>> jobs_;
  u64 hello_ = 0;  // transaction
  Time greeted_{};
  bool welcome_ = false;
};

}  // namespace softib::aggregation
