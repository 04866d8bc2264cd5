// The parts of `softib topo`, one function for each.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "fabric/fabric.h"
#include "fabric/topo/import.h"

namespace softib::cli {

void add_topo_generate(CLI::App& topo, int& exit_code);
void add_topo_convert(CLI::App& topo, int& exit_code);
void add_topo_check(CLI::App& topo, int& exit_code);
void add_topo_draw(CLI::App& topo, int& exit_code);
void add_topo_show(CLI::App& topo, int& exit_code);

// A file to read, in whichever form.
struct TopoInput {
  std::string file;
  std::string from;  // a form's name; empty: by what it looks like
};
void add_input(CLI::App& command, TopoInput& input);

enum class Warnings : bool { print, leave };  // print: on stderr
[[nodiscard]] fabric::Parsed<fabric::topo::Imported> read_input(const TopoInput& input, Warnings warnings);

// Where a result goes: a file, or stdout when it is empty or "-".
CLI::Option* add_output(CLI::App& command, std::string& output);
[[nodiscard]] int write_output(const std::string& output, std::string_view text);

// The forms that can be written.
CLI::Option* add_to(CLI::App& command, std::string& to);
[[nodiscard]] std::string in_form(const std::string& to, const fabric::Fabric& fabric);

}  // namespace softib::cli
