// Any text as a fabric file: it is refused with one line of text, or gives a fabric that its own YAML describes.
#include <string_view>

#include "../require.h"
#include "fabric/fabric.h"

using softib::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  using namespace softib::fabric;
  auto fabric = parse({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!fabric) {
    require(fabric.error().text.starts_with("fuzz.yaml:"));
    require(fabric.error().text.find('\n') == std::string::npos);
    return 0;
  }
  constexpr size_t most_hosts = 64;  // larger ones only cost time
  if (fabric->hosts.size() > most_hosts) return 0;
  auto again = parse(to_yaml(*fabric), "again.yaml");
  require(again && *again == *fabric);
  auto completed = complete(*fabric);
  require(completed && *completed == *fabric);
  return 0;
}
