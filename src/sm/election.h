// Who is the master: the states of SMInfo and what other managers say (IBTA vol. 1, 14.4). Pure rules; the manager asks
// and sends.
#pragma once

#include <string>
#include <vector>

#include "sm/subnet.h"
#include "sm/subnet_manager.h"

namespace softib::sm {

// What another manager said of itself.
struct Rival {
  u64 guid = 0;
  u8 priority = 0;
  State state = State::not_active;
  u32 activity = 0;
  u64 sm_key = 0;
  End end;
  Path path;
};

// AttributeModifier of Set(SMInfo).
enum class Control : u32 { handover = 1, acknowledge = 2, disable = 3, standby = 4, discover = 5 };

struct Self {
  u64 guid = 0;
  u8 priority = 0;
  State state = State::discovering;
};

[[nodiscard]] Rival parse_rival(std::span<const u8> sm_info);
// More priority; for the same one, the lower GUID.
[[nodiscard]] bool outranks(const Rival& rival, const Self& self);

struct Verdict {
  bool lead = true;
  const Rival* other = nullptr;  // whom to follow; for a leader: to whom to hand over, if to anyone
};
// After discovery, or when others were asked again.
[[nodiscard]] Verdict decide(const Self& self, const std::vector<Rival>& rivals);

// What a Set(SMInfo) from another manager does to the state; the same state where it does nothing.
[[nodiscard]] State after(State state, Control control);

}  // namespace softib::sm
