// The softib command: parsing, and the table of its subcommands.
#pragma once

namespace softib::cli {

[[nodiscard]] int run_application(int argc, char** argv);

}  // namespace softib::cli
