#include "sm/election.h"

namespace softib::sm {

Rival parse_rival(std::span<const u8> data) {
  Rival rival;
  rival.guid = wire::get(data, sm_info::guid);
  rival.sm_key = wire::get(data, sm_info::sm_key);
  rival.activity = static_cast<u32>(wire::get(data, sm_info::activity));
  rival.priority = static_cast<u8>(wire::get(data, sm_info::priority));
  rival.state = static_cast<State>(wire::get(data, sm_info::state) & 3);
  return rival;
}

bool outranks(const Rival& rival, const Self& self) {
  if (rival.priority != self.priority) return rival.priority > self.priority;
  return rival.guid < self.guid;
}

Verdict decide(const Self& self, const std::vector<Rival>& rivals) {
  const bool leads = self.state == State::master;
  const Rival* best = nullptr;
  for (const Rival& rival : rivals) {
    if (rival.state == State::not_active) continue;
    // A master is followed whatever its priority: it will hand over when it sees a better one.
    if (!leads && rival.state == State::master) return {false, &rival};
    const bool candidate = outranks(rival, self) && !(leads && rival.state == State::discovering);
    if (candidate && (!best || outranks(rival, {best->guid, best->priority, best->state}))) best = &rival;
  }
  return {leads || !best, best};
}

State after(State state, Control control) {
  switch (control) {
    case Control::handover:
      return state == State::standby || state == State::master ? State::master : state;
    case Control::acknowledge:
      return state == State::master ? State::standby : state;
    case Control::disable:
      return state == State::standby ? State::not_active : state;
    case Control::standby:
      return state == State::not_active ? State::standby : state;
    case Control::discover:
      return state == State::standby ? State::discovering : state;
  }
  return state;
}

}  // namespace softib::sm
