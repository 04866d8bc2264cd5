// What the command line and the environment say.
#pragma once

#include <string>
#include <vector>

namespace conformance {

struct Options {
  std::string device;  // empty: the first one
  int port = 1;
  int gid_index = -1;        // -1: the first RoCE v2 entry on Ethernet, 0 on InfiniBand
  std::string peer;          // shell command that starts the other end's agent; empty: both ends here
  std::string peer_device;   // device of a local second end; empty: the same device
  std::string port_control;  // shell command that changes the port; see docs/conformance.md
  double slow = 1.0;         // multiplies upper time bounds, for emulated machines
  bool huge = false;         // also messages of 2^31 bytes
  bool agent = false;
  bool fork_init = false;  // call ibv_fork_init first (for agents)
  bool isolate = false;    // each test in a process of its own
  std::string expected;    // file of tests that are known to fail, with reasons
  int limit = 120;         // seconds for one test, before `slow`
};

// Takes our options out of argv and leaves GoogleTest's. Exits with a message on a bad one.
void parse_options(int* argc, char** argv);

const Options& options();

// The command that starts an agent on the same device as this process.
std::string own_agent_command(const std::string& extra = "");

}  // namespace conformance
