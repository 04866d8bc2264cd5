// Traps to the subnet manager: each is sent again until the manager represses it, and no port sends the same one more
// often than its SubnetTimeOut allows (IBTA vol. 1, 13.4.9 and 14.2.5.1).
#pragma once

#include <vector>

#include "net/state.h"
#include "wire/notice.h"

namespace softib::net {

struct World;

class Traps {
 public:
  explicit Traps(World& world) : world_(world) {}

  void link_state(u32 node);                                                     // 128, of a switch
  void link_trouble(const Port& port, wire::TrapNumber which);                   // 129 to 131
  void local_change(const Port& port, u16 change_flags);                         // 144
  void bad_m_key(const Port& port, const Packet& packet);                        // 256
  void bad_key(const Port& port, wire::TrapNumber which, const BadKey& packet);  // 257 to 259

  // A TrapRepress that came to `port`.
  void repress(const Port& port, std::span<const u8> mad);
  void forget(u32 node);  // it lost its power

  u64 on_time(u64 now);

 private:
  enum class Stage : u8 { waiting, sent, repressed };
  struct Pending {
    PortRef issuer;
    wire::TrapNumber number;
    Stage stage = Stage::waiting;
    u64 transaction = 0;
    u64 due = 0;  // 0: one interval after the next on_time()
    Attribute notice{};
  };

  void raise(const Port& issuer, wire::TrapNumber number, wire::NoticeType type, const Attribute& details);
  Pending* find(const Port& issuer, wire::TrapNumber number, const Attribute& notice);
  void send(Pending& pending);
  [[nodiscard]] u64 interval(const Pending& pending) const;

  World& world_;
  std::vector<Pending> pending_;
  u64 transactions_ = 0;
};

}  // namespace softib::net
