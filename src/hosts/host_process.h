// The process that lives on a host and holds its namespaces: what a machine's init is to the machine.
#pragma once

#include <string_view>

#include "hosts/place.h"

namespace softib::hosts {

// What the keeper says to it, and how its answers begin.
namespace order {
inline constexpr std::string_view set_up = "set up";
inline constexpr std::string_view furnish = "furnish";
inline constexpr std::string_view done = "done";
inline constexpr std::string_view noted = "note ";     // done; what follows had to be left out
inline constexpr std::string_view failed = "failed ";  // why
}  // namespace order

// In a child of the keeper, in new namespaces: follows the keeper's orders, until that ends.
[[noreturn]] void live_as_host(const Surroundings& around, const PlaceSpec& spec, int line, pid_t keeper);

}  // namespace softib::hosts
