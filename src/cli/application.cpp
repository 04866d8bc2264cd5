#include "cli/application.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <vector>

#include "cli/commands/commands.h"
#include "fabric/faults/ends.h"

namespace softib::cli {

namespace {

constexpr std::string_view about =
    "InfiniBand in user space: run unmodified RDMA programs without RDMA hardware, kernel module or root.";
constexpr std::string_view application_examples = R"(Examples:
  softib up                              two hosts, host0 and host1, with one HCA each
  softib run host0 -- ibv_devinfo
  softib run host1 -- ib_write_bw & sleep 1    a server ...
  softib run host0 -- ib_write_bw localhost    ... and its client
  softib status
  softib down

'softib COMMAND --help' tells more about each command.)";

// "topo generate ": the commands that were typed.
std::string used_commands(const CLI::App& app) {
  const auto used = app.get_subcommands();
  return used.empty() ? "" : used[0]->get_name() + " " + used_commands(*used[0]);
}

// CLI11 says of an unknown command only that there is none.
std::string what_is_wrong(const CLI::App& app, const CLI::ParseError& error) {
  if (const auto used = app.get_subcommands(); !used.empty()) return what_is_wrong(*used[0], error);
  std::vector<std::string_view> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  const auto rest = app.remaining();
  if (names.empty() || rest.empty() || rest[0].starts_with("-")) return error.what();
  return fmt::format("there is no command '{}'{}", rest[0], fabric::hint_among(rest[0], names));
}

int exit_of(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  std::string used = used_commands(app);
  fmt::print(stderr, "softib: {}\n", what_is_wrong(app, error));
  fmt::print(stderr, "'softib {}--help' tells how it is used\n", used);
  return used.starts_with("run ") ? run_failed : usage_error;
}

// The words behind `softib ssh`, if this is that. Under the name softib-ssh it is nothing else.
std::optional<std::vector<std::string>> words_for_ssh(int argc, char** argv) {
  const std::string_view program = argv[0] ? argv[0] : "";
  const bool by_name = program.substr(program.rfind('/') + 1) == "softib-ssh";
  const bool by_command = argc > 2 && std::string_view(argv[1]) == "ssh" && std::string_view(argv[2]) != "--help";
  if (by_name) return std::vector<std::string>(argv + 1, argv + argc);
  if (by_command) return std::vector<std::string>(argv + 2, argv + argc);
  return std::nullopt;
}

}  // namespace

int run_application(int argc, char** argv) {
  if (auto words = words_for_ssh(argc, argv)) return run_ssh(*words);
  CLI::App app{std::string(about), "softib"};
  app.footer(std::string(application_examples));
  app.set_version_flag("--version", std::string("softib ") + SOFTIB_VERSION);
  app.require_subcommand(1);
  int exit_code = 0;
  for (auto add : {add_up,       add_down, add_status, add_run,         add_shell,    add_ssh,      add_cp,
                   add_hostfile, add_env,  add_list,   add_topo,        add_link,     add_counters, add_switch,
                   add_host,     add_hca,  add_sm,     add_aggregation, add_scenario, add_coll})
    add(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return exit_of(app, error);
  }
  return exit_code;
}

}  // namespace softib::cli
