// Where the parts of SoftIB lie: beside this command in a build tree (bin/, lib/), or in an installed prefix
// (bin/softib, libexec/softib/softibd, lib/softib/libsoftib-preload.so). Relative to /proc/self/exe, so a prefix may
// move.
#pragma once

#include <string>

#include "fabric/fabric.h"

namespace softib::cli {

[[nodiscard]] fabric::Parsed<std::string> find_daemon();
[[nodiscard]] fabric::Parsed<std::string> find_preload_library();
// What gives hosts namespaces of their own.
[[nodiscard]] fabric::Parsed<std::string> find_hosts_keeper();
// $SOFTIB_AGGREGATION, or the installed one.
[[nodiscard]] fabric::Parsed<std::string> find_aggregation();
// The folder of the tools that Debian lacks (ibdev2netdev, show_gids).
[[nodiscard]] fabric::Parsed<std::string> find_tools();
// `softib ssh` as one word, for launchers.
[[nodiscard]] fabric::Parsed<std::string> find_ssh();
// What `softib coll tune` is.
[[nodiscard]] fabric::Parsed<std::string> find_coll_tune();
// The stock subnet manager, in PATH or where systems keep programs for administrators. The error names the remedy.
[[nodiscard]] fabric::Parsed<std::string> find_opensm();

}  // namespace softib::cli
