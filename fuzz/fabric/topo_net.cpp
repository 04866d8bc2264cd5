// Any text as a dump of ibnetdiscover and as a net file of ibsim.
#include "importer.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  using namespace softib;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::require_sound(fabric::topo::import_ibnetdiscover(text, "fuzz"));
  fuzz::require_sound(fabric::topo::import_ibsim(text, "fuzz"));
  (void)fabric::topo::detect_form(text);
  return 0;
}
