#include "cli/installation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace softib::cli {

namespace {

namespace fs = std::filesystem;

fs::path own_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

fabric::Parsed<std::string> first_existing(std::string_view what, const std::vector<fs::path>& places) {
  std::vector<std::string> tried;
  for (const fs::path& place : places) {
    std::string path = place.lexically_normal();
    if (::access(path.c_str(), R_OK) == 0) return path;
    if (tried.empty() || tried.back() != path) tried.push_back(path);
  }
  return fabric::refuse(fmt::format("cannot find {}; looked for {}", what, fmt::join(tried, ", ")));
}

}  // namespace

fabric::Parsed<std::string> find_daemon() {
  fs::path here = own_folder();
  return first_existing("the daemon", {here / "softibd", here / "../libexec/softib/softibd",
                                       here / ".." / SOFTIB_LIBEXECDIR / "softib/softibd"});
}

fabric::Parsed<std::string> find_hosts_keeper() {
  fs::path here = own_folder();
  return first_existing("the keeper of hosts", {here / "softib-hosts", here / "../libexec/softib/softib-hosts",
                                                here / ".." / SOFTIB_LIBEXECDIR / "softib/softib-hosts"});
}

fabric::Parsed<std::string> find_aggregation() {
  if (const char* chosen = std::getenv("SOFTIB_AGGREGATION"); chosen && *chosen == '/')
    return first_existing("SOFTIB_AGGREGATION", {chosen});
  fs::path here = own_folder();
  return first_existing("softib-aggregation",
                        {here / "softib-aggregation", here / "../libexec/softib/softib-aggregation",
                         here / ".." / SOFTIB_LIBEXECDIR / "softib/softib-aggregation"});
}

fabric::Parsed<std::string> find_ssh() {
  auto tools = find_tools();
  if (!tools) return tools;
  return first_existing("the program that stands in for ssh", {fs::path(*tools) / "softib-ssh"});
}

fabric::Parsed<std::string> find_coll_tune() {
  fs::path here = own_folder();
  return first_existing("the program that tunes collectives", {here / "softib_coll_tune"});
}

fabric::Parsed<std::string> find_opensm() {
  const char* path = std::getenv("PATH");
  std::string_view folders = path ? path : "";
  std::string all = fmt::format("{}:/usr/local/sbin:/usr/sbin:/sbin", folders);
  for (std::string_view rest = all; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const fs::path program = fs::path(rest.substr(0, end)) / "opensm";
    if (program.is_absolute() && ::access(program.c_str(), X_OK) == 0 && fs::is_regular_file(program)) return program;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return fabric::refuse(
      "'sm: opensm' needs the program opensm, which is not in PATH: install it (apt-get install opensm), or say "
      "'sm: builtin'");
}

fabric::Parsed<std::string> find_preload_library() {
  fs::path here = own_folder();
  constexpr const char* file = "libsoftib-preload.so";
  return first_existing("the preload library", {here / "../lib" / file, here / "../lib/softib" / file,
                                                here / ".." / SOFTIB_LIBDIR / "softib" / file});
}

fabric::Parsed<std::string> find_tools() {
  fs::path here = own_folder();
  return first_existing("the tools",
                        {here / "../libexec/softib/tools", here / ".." / SOFTIB_LIBEXECDIR / "softib/tools"});
}

}  // namespace softib::cli
