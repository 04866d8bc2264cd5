#include "fabric/error.h"

namespace softib::fabric {

std::string one_line(std::string text) {
  size_t most = 500;
  if (text.size() > most) {
    while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;  // a character stays whole
    text = text.substr(0, most) + "...";
  }
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  return text;
}

std::string shown(std::string_view text) {
  constexpr size_t most = 60;
  std::string result(text.substr(0, most));
  for (char& c : result)
    if (c < ' ' || c > '~') c = '?';
  return text.size() > most ? result + "..." : result;
}

}  // namespace softib::fabric
