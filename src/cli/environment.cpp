#include "cli/environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cli/daemon_call.h"
#include "cli/installation.h"
#include "cli/launchers.h"
#include "cli/session_folder.h"
#include "cli/status_query.h"
#include "fabric/error.h"
#include "fabric/faults/ends.h"
#include "fabric/runtime.h"

namespace softib::cli {

namespace {

using fabric::refuse;

constexpr std::string_view separators = " :";  // what ld.so splits LD_PRELOAD at
constexpr std::string_view our_library = "libsoftib-preload.so";
constexpr std::string_view our_tools = "/softib/tools";

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : std::string_view{};
}

std::vector<std::string_view> split_preload(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    size_t end = std::min(text.find_first_of(separators), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool is_ours(std::string_view part) { return part == our_library || part.ends_with(fmt::format("/{}", our_library)); }

std::string known_hosts(const fabric::Fabric& fabric) {
  constexpr size_t most = 16;
  std::vector<std::string_view> names;
  for (const fabric::Host& host : fabric.hosts)
    if (host.kind == fabric::HostKind::server) names.emplace_back(host.name);
  const size_t more = names.size() - std::min(names.size(), most);
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more ? fmt::format(" and {} more", more) : "");
}

// "; did you mean 'host0'?", if there is one like it.
std::string near(std::string_view host, const fabric::Fabric& fabric) {
  std::vector<std::string_view> names;
  for (const fabric::Host& known : fabric.hosts) names.emplace_back(known.name);
  const std::string hint = fabric::hint_among(host, names);
  return hint.starts_with("; did you mean") ? hint : "";
}

tl::unexpected<fabric::Error> unknown_host(const std::string& dir, std::string_view fabric, std::string_view host) {
  auto description = fabric::load(dir + "/fabric.yaml");
  if (!description) return refuse(description.error().text);
  return refuse(fmt::format("fabric '{}' has no host '{}'; its hosts are {}{}", fabric, host, known_hosts(*description),
                            near(host, *description)));
}

// The host's files are made when it is first used; softibd does it, and knows which hosts there are.
fabric::Parsed<ipc::PlaceKind> prepare_host(const std::string& dir, std::string_view fabric, std::string_view host) {
  if (!fabric::valid_host_name(host)) return unknown_host(dir, fabric, host);
  auto prepared = ask_to_prepare(dir, host);
  if (prepared && *prepared == ipc::PlaceKind::lost)
    return refuse(
        fmt::format("nobody can go to the hosts of fabric '{}': the keeper of their namespaces died (see "
                    "{}/daemon.log); end the fabric with '{}' and start it again",
                    fabric, dir, command_for("down", fabric)));
  if (prepared) return *prepared;
  switch (to_int(prepared.error())) {
    case ENODEV:
      return unknown_host(dir, fabric, host);
    case EHOSTDOWN:
      return refuse(fmt::format("{} is off; 'softib host {} on' switches it on", host, host));
    case EPERM:
      return refuse(fmt::format("'{}' of fabric '{}' is an aggregation node of a switch; nobody runs programs on it",
                                host, fabric));
    default:
      return refuse(fmt::format("cannot make the files of host '{}': {}", host, cause_of(prepared.error())));
  }
}

}  // namespace

std::string with_preload(std::string_view current, std::string_view library) {
  std::string others = without_preload(current);
  return others.empty() ? std::string(library) : fmt::format("{}:{}", others, library);
}

std::string without_preload(std::string_view current) {
  std::vector<std::string_view> kept;
  for (std::string_view part : split_preload(current))
    if (!is_ours(part)) kept.push_back(part);
  return fmt::format("{}", fmt::join(kept, ":"));
}

// An empty part is the current folder, and stays.
std::string without_tools(std::string_view path) {
  std::vector<std::string_view> kept;
  for (bool more = true; more;) {
    const size_t end = path.find(':');
    more = end != std::string_view::npos;
    const std::string_view part = path.substr(0, end);
    if (!part.ends_with(our_tools)) kept.push_back(part);
    if (more) path.remove_prefix(end + 1);
  }
  return fmt::format("{}", fmt::join(kept, ":"));
}

std::string with_tools(std::string_view path, std::string_view tools) {
  return fmt::format("{}:{}", without_tools(path), tools);
}

fabric::Parsed<std::string> loadable_library() {
  auto library = find_preload_library();
  if (library && library->find_first_of(separators) != std::string::npos)
    return refuse(
        fmt::format("the loader can't preload '{}': its path has a space or a colon; move it elsewhere", *library));
  return library;
}

std::string surrounding_fabric() {
  const std::string_view dir = variable("SOFTIB_FABRIC_DIR");
  const std::string_view name = dir.substr(dir.rfind('/') + 1);
  return fabric::valid_fabric_name(name) && fabric::fabric_dir(name) == dir ? std::string(name) : "default";
}

bool has_host(const std::string& dir, std::string_view host) {
  return fabric::valid_host_name(host) && ask_to_prepare(dir, host).has_value();
}

fabric::Parsed<std::vector<Variable>> launching_environment(std::string_view fabric) {
  auto dir = running_folder(fabric);
  if (!dir) return refuse(dir.error().text);
  auto ssh = find_ssh();
  if (!ssh) return refuse(ssh.error().text);
  auto library = loadable_library();
  if (!library) return refuse(library.error().text);
  // Under the preload library the names of hosts resolve; without SOFTIB_HOST it does nothing else.
  std::vector<Variable> variables{{"SOFTIB_FABRIC_DIR", *dir},
                                  {"SOFTIB_HOST", std::nullopt},
                                  {"LD_PRELOAD", with_preload(variable("LD_PRELOAD"), *library)}};
  for (Variable& setting : launcher_variables(*ssh)) variables.push_back(std::move(setting));
  return variables;
}

fabric::Parsed<HostEnvironment> host_environment(std::string_view fabric, std::string_view host) {
  auto dir = running_folder(fabric);
  if (!dir) return refuse(dir.error().text);
  auto place = prepare_host(*dir, fabric, host);
  if (!place) return refuse(place.error().text);
  auto library = loadable_library();
  if (!library) return refuse(library.error().text);
  std::vector<Variable> variables{{"SOFTIB_FABRIC_DIR", *dir},
                                  {"SOFTIB_HOST", std::string(host)},
                                  {"LD_PRELOAD", with_preload(variable("LD_PRELOAD"), *library)}};
  const std::string_view path = variable("PATH");
  if (auto tools = find_tools(); tools && !path.empty()) variables.push_back({"PATH", with_tools(path, *tools)});
  if (auto ssh = find_ssh(); ssh)
    for (Variable& setting : launcher_variables(*ssh)) variables.push_back(std::move(setting));
  return HostEnvironment{*dir, std::string(host), *place, std::move(variables)};
}

std::vector<Variable> outside_environment() {
  std::string preload = without_preload(variable("LD_PRELOAD"));
  std::vector<Variable> variables{{"SOFTIB_FABRIC_DIR", std::nullopt},
                                  {"SOFTIB_HOST", std::nullopt},
                                  {"LD_PRELOAD", preload.empty() ? std::nullopt : std::optional(preload)}};
  const std::string_view path = variable("PATH");
  if (without_tools(path) != path) variables.push_back({"PATH", without_tools(path)});
  for (Variable& setting : no_launcher_variables())
    if (std::getenv(setting.name.c_str())) variables.push_back(std::move(setting));
  return variables;
}

void apply(const std::vector<Variable>& variables) {
  for (const Variable& variable : variables) {
    if (variable.value)
      ::setenv(variable.name.c_str(), variable.value->c_str(), 1);
    else
      ::unsetenv(variable.name.c_str());
  }
}

std::string shell_quoted(std::string_view text) {
  std::string result = "'";
  for (char c : text) {
    if (c == '\'')
      result += "'\\''";
    else
      result += c;
  }
  return result + "'";
}

}  // namespace softib::cli
