#include <fmt/format.h>

#include <algorithm>

#include "sm/manager.h"
#include "wire/notice.h"

namespace softib::sm {

using wire::TrapNumber;

void Manager::trapped(const wire::Packet& packet) {
  if (self_.state != State::master) return;
  if (wire::attribute_of(packet.mad) != static_cast<u16>(SmpAttribute::notice)) return;
  repress(packet);
  const auto notice = data_of(packet.mad);
  if (wire::get(notice, wire::notice::is_generic) != 0) {
    switch (static_cast<TrapNumber>(wire::get(notice, wire::notice::trap_number))) {
      case TrapNumber::link_state:
        sweep_wanted_ = true;
        break;
      case TrapNumber::local_changes:
      case TrapNumber::system_guid:
        port_changed_locally(static_cast<u32>(wire::get(notice, wire::notice::lid)));
        break;
      default:
        break;
    }
  }
  administration_->event(notice, now_);
}

void Manager::repress(const wire::Packet& packet) {
  wire::Packet answer;
  answer.slid = packet.dlid;
  answer.dlid = packet.slid;
  answer.sl = packet.sl;
  answer.mad = packet.mad;
  wire::set(answer.mad, wire::header::method, static_cast<u8>(wire::Method::trap_repress));
  wire::set(answer.mad, wire::header::status, 0);
  mouth_.send(answer);
}

// A new description, or new capabilities: read again what administration shows of the port.
void Manager::port_changed_locally(u32 lid) {
  const auto end = subnet_.end_of_lid(lid);
  if (!end || phase_ != Phase::resting) {
    sweep_wanted_ = true;
    return;
  }
  requests_.get(subnet_.path(*end), SmpAttribute::node_description, 0, [this, end](const wire::Mad* mad) {
    if (mad) std::copy_n(data_of(*mad).begin(), 64, subnet_.node(*end).description.begin());
  });
  requests_.get(subnet_.path(*end), SmpAttribute::port_info, end->port | port_info::sm_supports_ext_speeds,
                [this, end](const wire::Mad* mad) {
                  if (!mad) return;
                  const auto capabilities = port_info::capability_mask;
                  const u64 before = subnet_.port(*end).get(capabilities);
                  std::copy_n(data_of(*mad).begin(), port_info_size, subnet_.port(*end).info.begin());
                  // A manager that was just started: hear what it says.
                  if (subnet_.port(*end).get(capabilities) & ~before & port_cap::is_sm) next_look_ = now_;
                });
}

}  // namespace softib::sm
