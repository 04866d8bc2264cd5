// What execv() and its kin take.
#pragma once

#include <string>
#include <vector>

namespace softib {

// Pointers into `words`, and the null that ends them.
[[nodiscard]] inline std::vector<char*> argument_pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace softib
