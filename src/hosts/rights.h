// What this user may do on this machine: namespaces directly, inside a user namespace, or not at all.
#pragma once

#include <string>

#include "fabric/fabric.h"

namespace softib::hosts {

struct Rights {
  bool user_namespace = false;
  u64 inode = 0;  // of the user namespace in which this process now is
};

// Puts this process into a network namespace of its own; before that, where it may not do so, into a user namespace in
// which user and group keep their numbers. The error names cause and remedy.
[[nodiscard]] fabric::Parsed<Rights> enter_closet();

// What may be done so that namespaces are allowed, from the errno that a try gave. `root` is where /proc lies.
[[nodiscard]] std::string remedy_for(int error, const std::string& proc = "/proc");

}  // namespace softib::hosts
