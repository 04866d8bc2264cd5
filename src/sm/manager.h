// The manager as a whole: the phases of a sweep, and what starts one.
#pragma once

#include <deque>
#include <optional>
#include <unordered_set>

#include "sm/discovery.h"
#include "sm/election.h"
#include "sm/lids.h"
#include "sm/ports.h"
#include "sm/sa/administration.h"
#include "sm/subnet_manager.h"
#include "sm/switches.h"

namespace softib::sm {

class Manager final : public SubnetManager {
 public:
  Manager(const Options& options, u64 own_guid, Mouth& mouth);

  void received(const wire::Packet& packet, u64 now) override;
  u64 on_time(u64 now) override;
  void sweep() override { sweep_wanted_ = true; }
  [[nodiscard]] State state() const override { return self_.state; }
  [[nodiscard]] bool subnet_up() const override { return up_; }

 private:
  // What the open requests are for. Each phase begins when the one before has no request left.
  enum class Phase : u8 { resting, discovering, asking, arming, routing, activating, looking, polling };

  // -- manager.cpp: running
  void run();
  bool step();
  void advance();
  void begin_timed();
  void handle(const wire::Packet& packet);
  void administer(const wire::Packet& packet);
  void rest();

  // -- sweep.cpp: heavy and light sweeps
  void begin_heavy();
  void discovered();
  void arm();
  void send_tables();
  void plan_multicast();
  void replant(u16 mlid);
  void finish();
  void announce_changes();
  void glance();
  void look();
  void looked();
  void look_at_switch(u32 number);

  // -- mastership.cpp
  void ask_rivals();
  void ask_rival(End end);
  void decided();
  void hand_over(const Rival& to);
  void follow(const Rival& leader);
  void poll();
  void polled(const wire::Mad* mad);
  void lost_leader();
  void enter(State state);
  void sm_info_asked(const wire::Packet& packet);
  void acknowledge();
  void controlled(Control control, const wire::Packet& packet);
  [[nodiscard]] std::array<u8, 64> own_info() const;

  // -- notices.cpp
  void trapped(const wire::Packet& packet);
  void repress(const wire::Packet& packet);
  void port_changed_locally(u32 lid);

  Options options_;
  Mouth& mouth_;
  Requests requests_;
  Discovery discovery_;
  PortSetup port_setup_;
  SwitchSetup switch_setup_;
  Lids lids_;
  fabric::Partitions partitions_;
  Self self_;
  u32 activity_ = 0;

  Subnet subnet_;
  std::unique_ptr<Graph> graph_;
  Tables tables_;
  std::unique_ptr<MulticastTables> multicast_owner_;
  const MulticastTables* multicast_ = nullptr;
  std::vector<Rival> rivals_;
  std::unique_ptr<Administration> administration_;
  std::unordered_set<u64> known_ports_;

  Phase phase_ = Phase::resting;
  std::deque<wire::Packet> inbox_;
  std::deque<wire::Packet> later_;  // for administration, while there are no tables to answer from
  bool running_ = false;
  bool up_ = false;
  bool sweep_wanted_ = true;
  bool greet_ = true;  // clients shall register again
  bool looked_changed_ = false;
  u64 now_ = 0;
  u64 next_look_ = 0;
  u64 next_glance_ = 0;
  u64 earliest_heavy_ = 0;
  u32 failed_sweeps_ = 0;
  std::string last_remark_;
  Rival leader_;            // whom a standby manager watches
  u64 acknowledge_to_ = 0;  // GUID of a manager that handed over and was not told yet
  u32 unanswered_polls_ = 0;
};

}  // namespace softib::sm
