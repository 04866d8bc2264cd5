// Links: when two ends train, at what width and speed, and what the ports' states do when a link comes or goes.
#pragma once

#include "net/world.h"

namespace softib::net {

// Whether anything gets across, and whether data does (management packets need less).
[[nodiscard]] bool carries_management(const World& world, const Port& out);
[[nodiscard]] bool carries_data(const World& world, const Port& out);

// All speeds or widths up to one, as a mask.
[[nodiscard]] u16 speeds_up_to(fabric::Speed fastest);
[[nodiscard]] u8 widths_up_to(fabric::Width widest);

[[nodiscard]] fabric::Width widest(u8 mask);

// Brings the cable's link up if both ends are willing and have a speed and width in common.
void train(World& world, Cable& cable);
// The link is lost. An end in `commanded` (port index) is not told of it: its manager did it.
void lose(World& world, Cable& cable, u32 commanded = none);

// PortInfo.PortState = Down and PortPhysicalState, as a manager sets them.
void command_down(World& world, Port& port);
void command_physical(World& world, Port& port, PhysicalState state);
// Armed or Active, from the state before it. False where the rules forbid it.
[[nodiscard]] bool command_state(World& world, Port& port, ipc::PortState state);
// A data packet came in: an armed port becomes active (IBTA vol. 1, 7.2.7).
void saw_data(World& world, Port& port);

}  // namespace softib::net
