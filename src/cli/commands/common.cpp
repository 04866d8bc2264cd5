#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "fabric/fabric.h"

namespace softib::cli {

int complain(std::string_view text, int code) {
  fmt::print(stderr, "softib: {}\n", text);
  return code;
}

CLI::Option* add_name(CLI::App& command, std::string& name) {
  return command.add_option("--name", name, "Name of the fabric")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return fabric::valid_fabric_name(text)
                       ? std::string()
                       : fmt::format("'{}' is no fabric name: letters, digits, '.', '_' and '-', at most 63", text);
          },
          "NAME"));
}

}  // namespace softib::cli
