// Which form a text is in, and reading it.
#include <algorithm>
#include <cctype>

#include "fabric/topo/ibnl.h"
#include "fabric/topo/import.h"
#include "fabric/topo/lines.h"

namespace softib::fabric::topo {

namespace {

// "Switch 40 "S-0002c9..." ...": ibnetdiscover's when the id is made from a GUID.
std::optional<Form> form_of_record(std::string_view line, const std::vector<std::string_view>& words) {
  if (words.size() < 3 || words[2].size() < 3 || words[2].front() != '"') return std::nullopt;
  if (!std::isdigit(static_cast<unsigned char>(words[1].front()))) return std::nullopt;
  if (words[0] == "Hca") return Form::ibsim;
  if (words[0] != "Switch" && words[0] != "Ca" && words[0] != "Rt") return std::nullopt;
  std::string_view id = line.substr(line.find('"') + 1);
  id = id.substr(0, id.find('"'));
  bool guid = id.size() >= 3 && id[1] == '-' &&
              std::all_of(id.begin() + 2, id.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
  return guid ? Form::ibnetdiscover : Form::ibsim;
}

// "P1 -4X-> TYPE NAME PORT"
bool is_panel_connection(std::string_view line) {
  auto arrow = split_arrow(line);
  return arrow && *arrow && (**arrow).target.size() == 3 && !(**arrow).port.ends_with(':');
}

}  // namespace

const std::vector<std::string_view>& form_names() {
  static const std::vector<std::string_view> names{"yaml", "ibnetdiscover", "ibsim", "topo"};
  return names;
}

Form detect_form(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = take_line(text);
    std::vector<std::string_view> words = words_of(line);
    if (words.empty()) continue;
    if (auto form = form_of_record(line, words)) return *form;
    if (is_panel_connection(line)) return Form::topo;
  }
  return Form::yaml;
}

Parsed<Imported> import(Form form, std::string_view text, std::string_view source) {
  switch (form) {
    case Form::ibnetdiscover:
      return import_ibnetdiscover(text, source);
    case Form::ibsim:
      return import_ibsim(text, source);
    case Form::topo:
      return import_topo(text, source, default_ibnl_folders());
    case Form::yaml:
      break;
  }
  return parse(text, source).map([](Fabric&& fabric) { return Imported{std::move(fabric), {}}; });
}

}  // namespace softib::fabric::topo
