// A tuning file of this process alone: the communicators that are made while it has a text choose by it.
#pragma once

#include <string>

namespace softib::perf::tune {

class RulesFile {
 public:
  RulesFile();  // throws Stop
  ~RulesFile();
  RulesFile(const RulesFile&) = delete;
  RulesFile& operator=(const RulesFile&) = delete;

  // Empty: the library chooses by itself.
  void set(const std::string& text);

 private:
  std::string path_;
};

}  // namespace softib::perf::tune
