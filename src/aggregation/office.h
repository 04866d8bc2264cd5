// The aggregation manager at work: its queue pair for words, what it learns from subnet administration, and the service
// record by which others find it. Also where nodes without a manager of their own look for one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "aggregation/manager.h"
#include "aggregation/station.h"

namespace softib::aggregation {

// What is asked of subnet administration now and then, one thing at a time.
class Enquiries final : public Watched {
 public:
  using Answered = std::function<void(const coll::innetwork::Subnet::Answer&)>;

  Enquiries(StationPort& port, Watch& watch) : port_(port), watch_(watch) {}
  ~Enquiries() override { close(); }
  [[nodiscard]] bool is_at(const StationPort& port) const { return &port_ == &port; }

  void ask(const coll::innetwork::Subnet::Question& question, Answered answered);
  bool turn(Time now) override;
  // Whatever has been read no more stands in the socket.
  [[nodiscard]] bool arm() override { return true; }
  [[nodiscard]] int descriptor() const override { return subnet_->descriptor(); }
  void on_time(Time now);

 private:
  void open();
  void close();

  StationPort& port_;
  Watch& watch_;
  std::unique_ptr<coll::innetwork::Subnet> subnet_;
  struct Waiting {
    Answered answered;
    Time until;
  };
  std::map<u32, Waiting> waiting_;
  std::vector<Answered> unasked_;
};

class Office final : public Watched {
 public:
  using Log = Station::Log;

  [[nodiscard]] static coll::Outcome<std::unique_ptr<Office>> make(StationPort& port, const Options& options,
                                                                   Watch& watch, Log log);
  ~Office() override;

  bool turn(Time now) override;
  void on_time(Time now);
  [[nodiscard]] bool arm() override { return post_->arm(); }
  [[nodiscard]] int descriptor() const override { return post_->descriptor(); }
  [[nodiscard]] coll::innetwork::Correspondent address() const { return post_->address(); }
  void node_is_gone(u64 guid) {
    manager_.node_is_gone(guid);
    watch_.wake(*this);
  }
  [[nodiscard]] bool is_at(const StationPort& port) const { return &port_ == &port; }
  [[nodiscard]] bool is_registered() const { return registered_; }
  [[nodiscard]] const Manager& manager() const { return manager_; }
  // Takes the service record back, and waits for that, but not for long.
  void leave();

 private:
  Office(StationPort& port, const Options& options, Watch& watch, Log log);
  void take(const coll::innetwork::Mailbox::Event& event, Time now);
  bool carry_out(Time now);
  void read_topology();
  void topology_read(const tl::expected<Topology, std::string>& topology);
  void take_nodes(const coll::innetwork::Subnet::Answer& answer);
  void take_links(const coll::innetwork::Subnet::Answer& answer);
  void register_service(Time now);
  [[nodiscard]] coll::innetwork::ManagerService service() const;

  StationPort& port_;
  const Options& options_;
  Watch& watch_;
  Log log_;
  Enquiries enquiries_;
  std::unique_ptr<coll::innetwork::Post> post_;
  Manager manager_;
  std::map<u64, u64> tags_;  // by transaction
  Topology topology_;
  bool registered_ = false;
  bool complained_ = false;
  Time register_at_{};
};

}  // namespace softib::aggregation
