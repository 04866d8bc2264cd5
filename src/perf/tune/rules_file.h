// A tuning file of this process alone, which goes with it however that ends: the communicators that are made while it
// has a text choose by it.
#pragma once

#include <string>

#include "base/fd.h"

namespace softib::perf::tune {

class RulesFile {
 public:
  RulesFile();  // throws Stop
  RulesFile(const RulesFile&) = delete;
  RulesFile& operator=(const RulesFile&) = delete;

  // Empty: the library chooses by itself.
  void set(const std::string& text);

 private:
  Fd file_;
  std::string path_;
};

}  // namespace softib::perf::tune
