// A session on a host as ssh begins one: the arguments of ssh, and what runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fabric/fabric.h"

namespace softib::cli {

struct SshRequest {
  std::string host;     // without "user@"
  std::string command;  // words joined as ssh does; empty: a login shell
  bool no_input = false;
  bool in_background = false;
};

// The arguments behind `ssh`. The error names an option that asks for what is not there (forwarding, subsystems).
[[nodiscard]] fabric::Parsed<SshRequest> parse_ssh(const std::vector<std::string>& words);

// The host that a name or an address of the fabric's /etc/hosts stands for: "host1" for host1-ib0 or 10.255.0.2; the
// word itself where it stands for none.
[[nodiscard]] std::string host_of(std::string_view hosts_text, const std::string& word);

}  // namespace softib::cli
