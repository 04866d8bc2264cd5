// One function for each command: it declares the command's options and puts its exit code into `exit_code` when run.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace softib::cli {

void add_up(CLI::App& app, int& exit_code);
void add_down(CLI::App& app, int& exit_code);
void add_status(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_shell(CLI::App& app, int& exit_code);
void add_ssh(CLI::App& app, int& exit_code);
void add_cp(CLI::App& app, int& exit_code);
void add_hostfile(CLI::App& app, int& exit_code);
void add_env(CLI::App& app, int& exit_code);
void add_list(CLI::App& app, int& exit_code);
void add_topo(CLI::App& app, int& exit_code);
void add_link(CLI::App& app, int& exit_code);
void add_counters(CLI::App& app, int& exit_code);
void add_switch(CLI::App& app, int& exit_code);
void add_host(CLI::App& app, int& exit_code);
void add_hca(CLI::App& app, int& exit_code);
void add_sm(CLI::App& app, int& exit_code);
void add_aggregation(CLI::App& app, int& exit_code);
void add_scenario(CLI::App& app, int& exit_code);
void add_coll(CLI::App& app, int& exit_code);

inline constexpr int usage_error = 2;
// What `run` gives when the fault is its own and not the command's, as env(1) and docker do.
inline constexpr int run_failed = 125;
inline constexpr int not_executable = 126;
inline constexpr int not_found = 127;

// Everything behind `softib ssh`, or behind softib-ssh: ssh has options that are none of ours.
[[nodiscard]] int run_ssh(const std::vector<std::string>& words);
inline constexpr int ssh_failed = 255;

// "softib: TEXT" on stderr; gives `code` back.
int complain(std::string_view text, int code = 1);

// Adds --name, over what `name` holds; refuses what can't be a fabric's name.
CLI::Option* add_name(CLI::App& command, std::string& name);

}  // namespace softib::cli
