// The verbs transport at work: small messages and words of control by SEND over a queue pair of their own, long ones by
// RDMA write over the rails.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coll/transport/transport.h"
#include "coll/transport/verbs/peer.h"
#include "coll/transport/verbs/slots.h"

namespace softib::coll::verbs {

// Lengths of queues. Halved together until they fit what the HCA has.
struct Depths {
  u32 control_receives = 32;
  u32 control_sends = 64;
  u32 data_receives = 64;
  u32 data_writes = 32;
  u32 data_reads = 2;  // of each rail

  [[nodiscard]] u32 entries(u32 rails) const {
    return control_receives + control_sends + rails * (data_receives + data_writes + data_reads);
  }
  void halve();
};

// What the parts of a transport are made of. Members in the order in which they may be made; they go in reverse.
struct Parts {
  u32 rank = 0;
  std::string self;  // "rank 0 on host0"
  Devices devices;
  Depths depths;
  Slots receive_slots;  // of control queue pairs
  Slots send_slots;
  Slots pool;                   // bounce slots: receives' windows, and copies of what can't be sent from where it lies
  std::vector<u16> read_slots;  // of the pool, for what is read; the one that was used last comes first
  bool reads = true;            // SOFTIB_IB_READ
  std::unique_ptr<Registrar> registrar;
  u32 timeout = 20;
  u32 retries = 7;
  std::vector<std::unique_ptr<Peer>> peers;
};

// What a work request of an engine is called: who it was for, and what is to be done when it is complete.
enum class Job : u8 { control_send, control_receive, write, write_receive, read };

struct WorkName {
  Job job = Job::control_send;
  u8 rail = 0;
  u16 peer = 0;
  u16 item = 0;  // a transfer, or a slot
  u16 slot = 0;  // + 1: a slot to give back

  [[nodiscard]] u64 pack() const {
    return u64{static_cast<u8>(job)} << 56 | u64{rail} << 48 | u64{peer} << 32 | u64{item} << 16 | slot;
  }
  [[nodiscard]] static WorkName unpack(u64 name) {
    return {static_cast<Job>(name >> 56), static_cast<u8>(name >> 48), static_cast<u16>(name >> 32),
            static_cast<u16>(name >> 16), static_cast<u16>(name)};
  }
};

class Engine final : public Transport {
 public:
  explicit Engine(std::unique_ptr<Parts> parts, u32 ranks);
  ~Engine() override;

  [[nodiscard]] const char* name() const override { return "verbs"; }
  void send(Send& send) override;
  void receive(Receive& receive) override;
  void release(Receive& /*receive*/) override {}
  bool progress() override;
  void give_up(u32 peer) override;
  [[nodiscard]] std::optional<PeerFailure> broken() override;
  [[nodiscard]] std::span<const int> descriptors() const override { return descriptors_; }
  [[nodiscard]] bool arm() override;
  void borrow_memory(const void* memory, u64 bytes) override { parts_->registrar->borrow(memory, bytes); }
  void give_memory_back(const void* memory, u64 bytes) override { parts_->registrar->give_back(memory, bytes); }
  void hint_memory(const void* memory, u64 bytes) override { parts_->registrar->hint(memory, bytes); }
  void forget_memory(const void* memory, u64 bytes) override { parts_->registrar->forget(memory, bytes); }

 private:
  // engine.cpp: completions, and peers that have something to do.
  bool poll(Device& device);
  void on_completion(const ibv_wc& completion);
  void on_failed(Peer& peer, const ibv_wc& completion);
  void make_busy(Peer& peer);
  bool advance(Peer& peer);
  bool settle_departures();
  void drain(Peer& peer, std::chrono::steady_clock::time_point end);

  // misfits.cpp: what is long on one side and short on the other.
  [[nodiscard]] bool is_expected_long(Peer& peer, const Header& header);
  [[nodiscard]] bool came_as_short(Peer& peer, Receive& receive);
  [[nodiscard]] bool waits_as_long(Peer& peer, Receive& receive);
  void take_waits(Peer& peer, const Header& header);
  void tell_of_waits(Peer& peer);

  // control.cpp: words over the control queue pair.
  [[nodiscard]] bool may_post(const Peer& peer, u32 credits) const;
  void post_control(Peer& peer, Header header, const void* payload, u32 bytes);
  void on_control_sent(Peer& peer, const WorkName& name);
  void post_receive(Peer& peer, u32 slot);
  void tell(Peer& peer, const Header& header, const GrantBody& body = {});
  bool post_notes(Peer& peer);
  void on_message(Peer& peer, u32 slot);
  void take_word(Peer& peer, const Header& header, const std::byte* payload);
  [[nodiscard]] static Transfer* transfer_of(const Peer& peer, u32 token);
  void take_consumed(Peer& peer, const Header& header);
  void take_mismatch(Peer& peer, const Header& header);
  void complain_of_length(Peer& peer, bool sender, u64 sent, u64 expected);

  // small.cpp: messages that go at once.
  [[nodiscard]] bool within_budget(const Peer& peer) const;
  void post_small(Peer& peer, Send& send);
  bool post_outbox(Peer& peer);
  void take_data(Peer& peer, const Header& header, const std::byte* payload);
  void take_announcement(Peer& peer, const Header& header);
  void deliver(Peer& peer, Receive& receive, const std::byte* data, u64 bytes);

  // sending.cpp: long messages out.
  void take_grant(Peer& peer, const Header& header, const std::byte* payload);
  void begin_transfer(Peer& peer, Send& send, const Grant& grant);
  void cut(Transfer& transfer);
  bool advance(Transfer& transfer);
  bool advance_pieces(Transfer& transfer);
  [[nodiscard]] bool make_offer(Transfer& transfer);
  void take_fetched(Peer& peer, const Header& header);
  [[nodiscard]] bool post_write(Transfer& transfer, u64 piece);
  void post(Peer& peer, const Rail& rail, ibv_send_wr& request);
  void on_written(Peer& peer, const WorkName& name);
  void end_transfer(Transfer& transfer, State state);

  // receiving.cpp: long messages in.
  void begin_landing(Peer& peer, Receive& receive, u32 answers);
  [[nodiscard]] bool land_directly(Landing& landing, GrantBody& body);
  [[nodiscard]] bool land_in_window(Landing& landing, GrantBody& body);
  void give_window_back(Landing& landing);
  void on_landed(Peer& peer, u32 rail, u32 immediate);
  void take_slots(Landing& landing, u32 slot);
  [[nodiscard]] std::optional<u64> take_next(Landing& landing);
  void take_piece(Peer& peer, const Header& header, const std::byte* payload);
  void put(Landing& landing, u64 offset, const std::byte* data, u64 bytes);
  void end_landing(Landing& landing, State state);

  // reading.cpp: long messages that are read by their receiver.
  [[nodiscard]] bool may_read(const Landing& landing) const;
  void take_offer(Peer& peer, const Header& header, const std::byte* payload);
  bool post_reads(Peer& peer);
  [[nodiscard]] bool post_read(Landing& landing);
  void on_read(Peer& peer, const WorkName& name);
  void on_told_fetched(Peer& peer, u32 token);
  void end_reading(Landing& landing);

  // failing.cpp
  void fail(Peer& peer, Code code, std::string why);
  void close(Peer& peer);
  void fail_operations(Peer& peer);
  bool look_at_events();
  void on_event(Device& device, u32 number, const ibv_async_event& event);
  [[nodiscard]] std::string describe(const Peer& peer, const ibv_wc& completion) const;

  [[nodiscard]] Peer* find(u32 rank) const { return rank < by_rank_.size() ? by_rank_[rank] : nullptr; }

  std::unique_ptr<Parts> parts_;
  std::vector<Peer*> by_rank_;  // null: not a peer
  std::vector<Peer*> busy_;
  std::vector<int> descriptors_;
  Table<Transfer> transfers_;
  Table<Landing> landings_;
  std::deque<PeerFailure> failures_;
  u32 departed_ = 0;  // peers that said bye
  u32 idle_rounds_ = 0;
};

}  // namespace softib::coll::verbs
