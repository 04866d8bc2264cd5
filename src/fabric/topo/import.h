// Importers: other programs' descriptions of a fabric, as a Fabric. What SoftIB can't represent is left out, and said.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"

namespace softib::fabric::topo {

class IbnlLibrary;

struct Imported {
  Fabric fabric;                      // complete
  std::vector<std::string> warnings;  // one line each, "dump.txt:17: ...": what was left out or guessed
};

// The output of ibnetdiscover (also with -g, -f, -s before it). GUIDs, LIDs, LMCs and node descriptions are kept; HCAs
// whose node descriptions name the same host make one host.
[[nodiscard]] Parsed<Imported> import_ibnetdiscover(std::string_view text, std::string_view source);

// A net file of ibsim: the same form with its own extensions.
[[nodiscard]] Parsed<Imported> import_ibsim(std::string_view text, std::string_view source);

// A topology file of ibutils. `library` holds the system definitions (*.ibnl); folders are searched in order.
[[nodiscard]] Parsed<Imported> import_topo(std::string_view text, std::string_view source,
                                           const std::vector<std::string>& library);
[[nodiscard]] Parsed<Imported> import_topo(std::string_view text, std::string_view source, const IbnlLibrary& library);
// $IBDM_IBNL_PATH, and where distributions put the definitions.
[[nodiscard]] std::vector<std::string> default_ibnl_folders();

enum class Form : u8 { yaml, ibnetdiscover, ibsim, topo };
[[nodiscard]] const std::vector<std::string_view>& form_names();  // in the order of the enum
// By what the text looks like; YAML when it looks like nothing else.
[[nodiscard]] Form detect_form(std::string_view text);
[[nodiscard]] Parsed<Imported> import(Form form, std::string_view text, std::string_view source);

}  // namespace softib::fabric::topo
