// How the ranks' transports are made and connected: each step is followed by an all-gather in which every rank tells
// what came of it, so that all of them go on or none does.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coll/bootstrap/bootstrap.h"
#include "coll/environment.h"
#include "coll/transport/verbs/engine.h"

namespace softib::coll::verbs {

// What a rank tells first. Sent as it lies in memory.
struct Hello {
  u64 magic = 0;
  u32 ports = 0;
  u32 control_receives = 0;
  u32 slot_bytes = 0;  // of those receives, header and all
  u32 pool_slot_bytes = 0;
  u64 pool_address = 0;
  u32 reads_answered = 0;  // at once, by each of its HCAs
  u32 reserved = 0;
  std::array<PortAddress, max_rails> port{};
};

// The queue pairs of one rank for another.
struct PairNumbers {
  u32 rank = 0;
  u32 control = 0;
  std::array<u32, max_rails> data{};
};

class Setup {
 public:
  Setup(Bootstrap& bootstrap, const Environment& environment, std::span<const u32> peers);
  [[nodiscard]] Outcome<std::unique_ptr<Transport>> run();

 private:
  struct RailPlan {
    RailPair places;
    bool is_global = false;
  };

  // Tells the others `mine` and how it went; an error if it went wrong anywhere.
  [[nodiscard]] Outcome<std::vector<Bytes>> agree(std::span<const std::byte> mine);
  void give_in(std::string why);

  void prepare();
  [[nodiscard]] bool make_slots();
  void make_pool();
  void fit_depths();
  [[nodiscard]] Hello say_hello() const;
  [[nodiscard]] u32 reads_at_once(int ibv_device_attr::*limit) const;
  [[nodiscard]] bool understand(u32 rank, const Bytes& said);
  void make_pairs();
  void make_peer(u32 rank);
  [[nodiscard]] PairOwner make_pair(const Device& device, u32 sends, u32 receives, u32* inline_bytes);
  [[nodiscard]] bool initialise(ibv_qp* pair, const Port& port);
  void connect(Peer& peer, const PairNumbers& theirs);
  [[nodiscard]] bool connect_pair(ibv_qp* pair, const Port& port, const PortAddress& there, u32 number, u32 reads);
  void post_receives(Peer& peer);
  void tell_choice() const;

  Bootstrap& bootstrap_;
  const Environment& environment_;
  std::span<const u32> wanted_;
  u32 rank_;
  std::unique_ptr<Parts> parts_;
  std::map<u32, Hello> hellos_;
  std::map<u32, std::vector<RailPair>> rails_;  // my place first
  std::optional<std::string> trouble_;
};

}  // namespace softib::coll::verbs
