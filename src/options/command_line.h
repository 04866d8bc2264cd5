// The command line of a program with a handful of options. What is done by CLI11 here takes a compiler many seconds in
// each file that includes that itself.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"

namespace softib {

// Instead of what the program is for: help that was asked for (0), or a mistake and what to do about it (2).
struct Ending {
  int status = 0;
  std::string text;
};

class CommandLine {
 public:
  explicit CommandLine(const std::string& description, const std::string& program = {});
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Under the options, in the help.
  void footer(const std::string& text);

  // `names`: "-v,--verbose". `kind`: what stands for the value in the help. The values have to outlive parse().
  void text(const std::string& names, std::string& value, const std::string& help, const std::string& kind = "TEXT");
  void required_text(const std::string& names, std::string& value, const std::string& help);
  void texts(const std::string& names, std::vector<std::string>& values, const std::string& help,
             const std::string& kind);  // may be given several times
  void number(const std::string& names, u32& value, u32 least, u32 most, const std::string& help);
  void descriptor(const std::string& names, int& value, const std::string& help);
  void flag(const std::string& names, bool& value, const std::string& help);

  [[nodiscard]] std::optional<Ending> parse(int argc, const char* const* argv);

 private:
  struct App;
  std::unique_ptr<App> app_;
};

}  // namespace softib
