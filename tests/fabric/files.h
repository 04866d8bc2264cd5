// Recorded inputs beside the tests.
#pragma once

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace softib::test {

inline std::string recorded(const std::string& folder, const std::string& name) {
  std::ifstream file(folder + "/" + name, std::ios::binary);
  if (!file) throw std::runtime_error("no file " + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace softib::test
