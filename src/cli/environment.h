// The environment that makes a process run on a host of a fabric.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"
#include "ipc/places.h"

namespace softib::cli {

struct Variable {
  std::string name;
  std::optional<std::string> value;  // none: to be unset
};

// The preload library, at a path that the loader can take.
[[nodiscard]] fabric::Parsed<std::string> loadable_library();

// LD_PRELOAD as it should be: what is there already, then ours, once.
[[nodiscard]] std::string with_preload(std::string_view current, std::string_view library);
// Without any libsoftib-preload.so; empty when nothing is left.
[[nodiscard]] std::string without_preload(std::string_view current);

// PATH with the folder of our tools behind what is there: a user's own tool of the same name goes first.
[[nodiscard]] std::string with_tools(std::string_view path, std::string_view tools);
[[nodiscard]] std::string without_tools(std::string_view path);

// What makes a process a program on a host.
struct HostEnvironment {
  std::string dir;  // the fabric's
  std::string host;
  ipc::PlaceKind place = ipc::PlaceKind::plain;
  std::vector<Variable> variables;
};

// The fabric that this process is on, if it is one of ours; else "default".
[[nodiscard]] std::string surrounding_fabric();

// For a program that starts others on hosts, itself on none: what launchers need. The error: no such fabric.
[[nodiscard]] fabric::Parsed<std::vector<Variable>> launching_environment(std::string_view fabric);

// Whether the running fabric in `dir` has that host.
[[nodiscard]] bool has_host(const std::string& dir, std::string_view host);

// For a program on `host`. The error says that the fabric does not run, has no such host, or that a part is missing.
[[nodiscard]] fabric::Parsed<HostEnvironment> host_environment(std::string_view fabric, std::string_view host);
// Back to a process outside of any fabric.
[[nodiscard]] std::vector<Variable> outside_environment();

void apply(const std::vector<Variable>& variables);

// 'it'\''s', for any POSIX shell.
[[nodiscard]] std::string shell_quoted(std::string_view text);

}  // namespace softib::cli
