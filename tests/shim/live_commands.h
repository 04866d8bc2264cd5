// What this test binary does when a test starts it as another program.
#pragma once

#include <optional>

namespace softib::tests {

// "import FD": uses the command file that it inherited through exec. Nothing: no such command was given.
std::optional<int> run_live_command(int argc, char** argv);

}  // namespace softib::tests
