#include "cli/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <sstream>

#include "fabric/error.h"

namespace softib::cli {

namespace {

using fabric::refuse;

// As ssh(1) has them: those with a value, and of all those what can't be had here.
constexpr std::string_view with_value = "BbcDEeFIiJLlmOopQRSWw";
constexpr std::string_view flags = "46AaCfGgKkMNnqsTtVvXxYy";
constexpr std::string_view not_here = "DLRWwNMOQSsG";

using Words = std::span<const std::string>;

// One word of letters, "-xnq" or "-l user" or "-luser"; takes the value's word too.
fabric::Parsed<void> take_option(Words& words, SshRequest& request) {
  const std::string word = words.front();
  words = words.subspan(1);
  for (size_t i = 1; i < word.size(); ++i) {
    const char letter = word[i];
    const bool has_value = with_value.find(letter) != std::string_view::npos;
    if (!has_value && flags.find(letter) == std::string_view::npos)
      return refuse(fmt::format("unknown option -- {}", letter));
    if (not_here.find(letter) != std::string_view::npos)
      return refuse(
          fmt::format("-{} is not to be had on SoftIB: there is no connection that could be shared, forwarded or "
                      "shown",
                      letter));
    if (letter == 'n') request.no_input = true;
    if (letter == 'f') request.no_input = request.in_background = true;
    if (!has_value) continue;
    if (i + 1 < word.size()) return {};
    if (words.empty()) return refuse(fmt::format("option requires an argument -- {}", letter));
    words = words.subspan(1);
    return {};
  }
  return {};
}

fabric::Parsed<void> take_options(Words& words, SshRequest& request) {
  while (!words.empty() && words.front().size() > 1 && words.front()[0] == '-') {
    if (words.front() == "--") {
      words = words.subspan(1);
      return {};
    }
    if (auto taken = take_option(words, request); !taken) return taken;
  }
  return {};
}

constexpr std::string_view digits = "0123456789";

std::string without_interface(std::string name) {
  const std::string_view stem = std::string_view(name).substr(0, name.find_last_not_of(digits) + 1);
  for (std::string_view ending : {"-ib", "-roce", "-ip"})
    if (stem.ends_with(ending) && stem.size() < name.size()) return name.substr(0, stem.size() - ending.size());
  return name;
}

}  // namespace

fabric::Parsed<SshRequest> parse_ssh(const std::vector<std::string>& arguments) {
  SshRequest request;
  Words words(arguments);
  if (auto taken = take_options(words, request); !taken) return refuse(taken.error().text);
  if (words.empty()) return refuse("name a host, as in 'softib ssh host1 hostname'");
  request.host = words.front();
  if (const size_t at = request.host.rfind('@'); at != std::string::npos) request.host.erase(0, at + 1);
  words = words.subspan(1);
  if (auto taken = take_options(words, request); !taken) return refuse(taken.error().text);
  request.command = fmt::format("{}", fmt::join(words, " "));
  return request;
}

std::string host_of(std::string_view hosts_text, const std::string& word) {
  std::istringstream lines{std::string(hosts_text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string address;
    fields >> address;
    std::string first;
    for (std::string name; fields >> name;) {
      if (first.empty()) first = name;
      if (name == word || address == word) return without_interface(first);
    }
  }
  return word;
}

}  // namespace softib::cli
