#include "options/command_line.h"

#include <CLI/CLI.hpp>
#include <sstream>

namespace softib {

struct CommandLine::App : CLI::App {
  using CLI::App::App;
};

CommandLine::CommandLine(const std::string& description, const std::string& program)
    : app_(std::make_unique<App>(description, program)) {
  app_->set_help_flag("-h,--help", "This text");
}

CommandLine::~CommandLine() = default;

void CommandLine::footer(const std::string& text) { app_->footer(text); }

void CommandLine::text(const std::string& names, std::string& value, const std::string& help, const std::string& kind) {
  app_->add_option(names, value, help)->type_name(kind);
}

void CommandLine::required_text(const std::string& names, std::string& value, const std::string& help) {
  app_->add_option(names, value, help)->required();
}

void CommandLine::texts(const std::string& names, std::vector<std::string>& values, const std::string& help,
                        const std::string& kind) {
  app_->add_option(names, values, help)->type_name(kind)->take_all();
}

void CommandLine::number(const std::string& names, u32& value, u32 least, u32 most, const std::string& help) {
  app_->add_option(names, value, help)->check(CLI::Range(least, most));
}

void CommandLine::descriptor(const std::string& names, int& value, const std::string& help) {
  app_->add_option(names, value, help)->type_name("FD");
}

void CommandLine::flag(const std::string& names, bool& value, const std::string& help) {
  app_->add_flag(names, value, help);
}

std::optional<Ending> CommandLine::parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::ostringstream told;
    const int status = app_->exit(error, told, told);
    return Ending{status == 0 ? 0 : 2, told.str()};
  }
}

}  // namespace softib
