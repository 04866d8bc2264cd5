#include "options.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>

namespace conformance {
namespace {

Options the_options;

using Setter = std::function<void(const std::string&)>;

const std::map<std::string, Setter>& value_options() {
  static const std::map<std::string, Setter> table = {
      {"--device", [](const std::string& v) { the_options.device = v; }},
      {"--port", [](const std::string& v) { the_options.port = std::stoi(v); }},
      {"--gid-index", [](const std::string& v) { the_options.gid_index = std::stoi(v); }},
      {"--peer", [](const std::string& v) { the_options.peer = v; }},
      {"--peer-device", [](const std::string& v) { the_options.peer_device = v; }},
      {"--port-control", [](const std::string& v) { the_options.port_control = v; }},
      {"--slow", [](const std::string& v) { the_options.slow = std::stod(v); }},
      {"--expected", [](const std::string& v) { the_options.expected = v; }},
      {"--limit", [](const std::string& v) { the_options.limit = std::stoi(v); }},
  };
  return table;
}

const std::map<std::string, bool*>& flag_options() {
  static const std::map<std::string, bool*> table = {
      {"--huge", &the_options.huge},
      {"--agent", &the_options.agent},
      {"--fork-init", &the_options.fork_init},
      {"--isolate", &the_options.isolate},
  };
  return table;
}

// --peer-device is VERBS_CONFORMANCE_PEER_DEVICE in the environment, and so on.
std::string variable_of(const std::string& option) {
  std::string name = "VERBS_CONFORMANCE_";
  for (char letter : option.substr(2)) name += letter == '-' ? '_' : static_cast<char>(std::toupper(letter));
  return name;
}

void read_environment() {
  for (const auto& [option, set] : value_options()) {
    if (const char* value = std::getenv(variable_of(option).c_str())) set(value);
  }
  if (std::getenv("VERBS_CONFORMANCE_HUGE")) the_options.huge = true;
}

[[noreturn]] void usage(const std::string& problem) {
  std::fprintf(stderr, "verbs_conformance: %s\noptions:", problem.c_str());
  for (const auto& [option, set] : value_options()) std::fprintf(stderr, " %s VALUE", option.c_str());
  for (const auto& [option, flag] : flag_options()) std::fprintf(stderr, " %s", option.c_str());
  std::fprintf(stderr, " --gtest_...\n");
  std::exit(2);
}

}  // namespace

void parse_options(int* argc, char** argv) {
  read_environment();
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const std::string word = argv[i];
    if (const auto flag = flag_options().find(word); flag != flag_options().end()) {
      *flag->second = true;
    } else if (const auto value = value_options().find(word); value != value_options().end()) {
      if (i + 1 == *argc) usage(word + " wants a value");
      value->second(argv[++i]);
    } else if (word.starts_with("--gtest_")) {
      argv[kept++] = argv[i];
    } else {
      usage("unknown option " + word);
    }
  }
  *argc = kept;
  argv[kept] = nullptr;
}

const Options& options() { return the_options; }

std::string own_agent_command(const std::string& extra) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  std::string command =
      "exec '" + std::string(path, length > 0 ? static_cast<size_t>(length) : 0) + "' --agent " + extra;
  if (!the_options.device.empty()) command += " --device " + the_options.device;
  command += " --port " + std::to_string(the_options.port);
  if (the_options.gid_index >= 0) command += " --gid-index " + std::to_string(the_options.gid_index);
  return command;
}

}  // namespace conformance
