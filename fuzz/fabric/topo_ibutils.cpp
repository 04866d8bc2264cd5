// Any text as definitions of systems and a topology file of them, with lines that begin with "----" in between; the
// last part is the topology.
#include "fabric/topo/ibnl.h"
#include "importer.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  using namespace softib;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  fabric::topo::IbnlLibrary library({});
  for (size_t cut = text.find("\n----"); cut != text.npos; cut = text.find("\n----")) {
    if (auto added = library.add(text.substr(0, cut + 1), "fuzz"); !added) fuzz::require_line(added.error().text);
    text.remove_prefix(std::min(text.find('\n', cut + 1), text.size()));
  }
  fuzz::require_sound(fabric::topo::import_topo(text, "fuzz", library));
  return 0;
}
