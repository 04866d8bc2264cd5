#include <fmt/format.h>

#include "base/error_text.h"
#include "cli/commands/commands.h"
#include "cli/topo/commands.h"
#include "fabric/runtime.h"
#include "fabric/topo/export.h"

namespace softib::cli {

namespace topo = fabric::topo;

namespace {

// Files that look like a description, and are none; with what to do about it.
std::string_view what_else(std::string_view text) {
  if (text.starts_with("\x1f\x8b")) return "this is compressed; 'gunzip -c FILE | softib topo ... -' reads it";
  if (text.starts_with("\xfd"
                       "7zXZ"))
    return "this is compressed; 'xz -dc FILE | softib topo ... -' reads it";
  if (text.starts_with("BZh")) return "this is compressed; 'bzip2 -dc FILE | softib topo ... -' reads it";
  for (std::string_view start : {"Ca\t:", "Ca\t :", "Switch\t:", "Switch\t :", "Rt\t:", "Rt\t :"})
    if (text.starts_with(start) || text.find("\n" + std::string(start)) != text.npos)
      return "this is the list of nodes of 'ibnetdiscover -l', ibhosts or ibswitches, without cables; plain "
             "'ibnetdiscover' writes what can be read";
  return {};
}

}  // namespace

void add_input(CLI::App& command, TopoInput& input) {
  command.add_option("FILE", input.file, "Description of the fabric; - for stdin")->required()->option_text(" ");
  command.add_option("--from", input.from, "Form of FILE, when it is not recognised: yaml, ibnetdiscover, ibsim, topo")
      ->check(CLI::IsMember({"yaml", "ibnetdiscover", "ibsim", "topo"}))
      ->option_text("FORM");
}

fabric::Parsed<topo::Imported> read_input(const TopoInput& input, Warnings warnings) {
  bool is_stdin = input.file == "-";
  auto text = fabric::read_file(is_stdin ? "/dev/stdin" : input.file);
  std::string source = is_stdin ? "stdin" : input.file;
  if (!text) return fabric::refuse(fmt::format("{}: {}", source, error_text(text.error())));
  topo::Form form = topo::detect_form(*text);
  for (size_t i = 0; i < topo::form_names().size(); ++i)
    if (input.from == topo::form_names()[i]) form = static_cast<topo::Form>(i);
  auto imported = topo::import(form, *text, source);
  if (const std::string_view other = what_else(*text); !imported && !other.empty())
    return fabric::refuse(fmt::format("{}: {}", source, other));
  const bool speaks_of_hosts = text->find("hosts") != std::string::npos || text->find("topology") != std::string::npos;
  if (!imported && form == topo::Form::yaml && input.from.empty() && !speaks_of_hosts)
    return fabric::refuse(
        imported.error().text +
        "\n(read as a fabric file: it looks like no output of ibnetdiscover, net file of ibsim or topology file)");
  if (imported && warnings == Warnings::print)
    for (const std::string& warning : imported->warnings) complain("warning: " + warning);
  return imported;
}

CLI::Option* add_output(CLI::App& command, std::string& output) {
  return command.add_option("-o,--output", output, "File to write; stdout without it")->option_text("FILE");
}

int write_output(const std::string& output, std::string_view text) {
  if (output.empty() || output == "-") {
    bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    return written ? 0 : complain(fmt::format("cannot write to stdout: {}", error_text()));
  }
  auto written = fabric::write_file(output, text);
  if (written) return 0;
  return complain(fmt::format("cannot write {}: {}", output, error_text(written.error())));
}

CLI::Option* add_to(CLI::App& command, std::string& to) {
  return command.add_option("--to", to, "Form to write: yaml (default) or ibnetdiscover, which ibsim reads too")
      ->check(CLI::IsMember({"yaml", "ibnetdiscover", "ibsim"}))
      ->option_text("FORM");
}

std::string in_form(const std::string& to, const fabric::Fabric& fabric) {
  return to.empty() || to == "yaml" ? fabric::to_yaml(fabric) : topo::to_ibnetdiscover(fabric);
}

}  // namespace softib::cli
