// softibd's event loop: sockets and the death of processes in, Control's answers out. One thread; never waits for a
// client; sleeps while there is nothing to do.
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <map>
#include <memory>

#include "base/fd.h"
#include "daemon/aggregation.h"
#include "daemon/control.h"
#include "daemon/hosts_keeper.h"
#include "daemon/runtime_files.h"
#include "daemon/stock_managers.h"
#include "ipc/brief_wait.h"

namespace softib::daemon {

class Server : private Watcher {
 public:
  [[nodiscard]] static fabric::Parsed<std::unique_ptr<Server>> create(RuntimeFiles files, fabric::Fabric fabric,
                                                                      Programs programs = {});
  ~Server() override;

  // Until SIGTERM or SIGINT.
  void run();

 private:
  using Clock = std::chrono::steady_clock;

  enum class Source : u8 {
    listener,
    signal,
    peer,
    process,
    context,
    channel,
    umad,
    rdma_cm,
    manager,
    aggregation,
    aggregation_word,
    keeper,
    keeper_word
  };

  struct Connection {
    Fd socket;
    Fd process;  // pidfd; none where the process lies in a pid namespace that is not visible here
    uid_t user = 0;
  };

  explicit Server(RuntimeFiles files);
  [[nodiscard]] fabric::Parsed<void> start(fabric::Fabric fabric, Programs programs);
  [[nodiscard]] fabric::Parsed<void> start_hosts(const Programs& programs);
  [[nodiscard]] fabric::Parsed<void> start_managers(const Programs& programs);
  void start_aggregation(Programs programs);

  void watch(int fd, Source source, u32 id, u32 events);
  void watch_context(u32 context, int fd) override { watch(fd, Source::context, context, 0); }
  void watch_channel(u32 channel, int fd) override;
  void watch_umad(u32 file, int fd) override { watch(fd, Source::umad, file, EPOLLIN); }
  void watch_rdma_cm(u32 file, int fd) override;
  void forget(int fd) override;
  bool kill(u32 peer) override;
  bool run_stock_managers(bool run) override;
  void watch_managers();
  bool run_aggregation(bool run) override;
  void watch_aggregation();

  void handle_event(Source source, u32 id);
  void accept_all();
  void accept_one(Fd socket);
  void make_room_for_one_refusal();
  void set_listening(bool on);
  void serve(u32 peer);
  // False: nothing more to read, or the peer went.
  bool serve_one(u32 peer, Connection& connection);
  [[nodiscard]] static bool answer(const Connection& connection, const Reply& reply);
  void drop(u32 peer);

  [[nodiscard]] int wait_limit() const;
  void advance_if_due();
  [[nodiscard]] fabric::Parsed<void> bring_up();
  void tick_if_due();

  RuntimeFiles files_;
  Fd epoll_;
  Fd signals_;
  Fd listener_;
  Fd reserve_;  // given up for a moment to refuse a connection when descriptors have run out
  std::map<u32, Connection> connections_;
  std::unique_ptr<Control> control_;
  std::unique_ptr<HostsKeeper> hosts_;
  std::unique_ptr<StockManagers> managers_;
  std::unique_ptr<AggregationPrograms> aggregation_;
  std::array<u8, ipc::max_message> message_;
  Clock::time_point last_tick_{};
  std::chrono::milliseconds tick_interval_{1};
  u64 next_advance_ = 0;         // CLOCK_MONOTONIC ns: when the management plane has something to do
  ipc::BriefWait next_mad_due_;  // who sent a MAD often sends the next one when it has the answer
  bool listening_ = false;
  bool stopping_ = false;
};

}  // namespace softib::daemon
