#include "cli/link_text.h"

#include <fmt/format.h>

#include "cli/table.h"

namespace softib::cli {

namespace {

using nlohmann::json;

std::string text_of(const json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "-";
}

std::string end_of(const json& link, size_t which) {
  const auto ends = link.is_object() ? link.find("ends") : link.end();
  if (ends == link.end() || !ends->is_array() || ends->size() <= which || !(*ends)[which].is_string()) return "-";
  return (*ends)[which].get<std::string>();
}

std::string faults_of(const json& link) {
  std::string text;
  if (!link.is_object() || !link.contains("faults")) return "-";
  for (const json& fault : link["faults"])
    if (fault.is_string()) text += (text.empty() ? "" : ", ") + fault.get<std::string>();
  return text.empty() ? "-" : text;
}

bool is_at(const std::string& end, const std::string& place) {
  return end == place || end.starts_with(place + ":") || end.starts_with(place + "/");
}

}  // namespace

std::string links_text(const json& links) {
  Table table({"END", "END", "STATE", "PHYSICAL", "WIDTH", "SPEED", "FAULTS"});
  for (const json& link : links)
    table.add({end_of(link, 0), end_of(link, 1), text_of(link, "state"), text_of(link, "physical"),
               text_of(link, "width"), text_of(link, "speed"), faults_of(link)});
  return table.empty() ? "no links\n" : table.text();
}

json links_at(const json& links, const std::string& place) {
  json found = json::array();
  for (const json& link : links)
    if (is_at(end_of(link, 0), place) || is_at(end_of(link, 1), place)) found.push_back(link);
  return found;
}

std::string faults_text(const json& faults) {
  if (!faults.is_array() || faults.empty()) return {};
  constexpr size_t most = 20;
  Table table({"NOT AS THE FABRIC FILE SAYS", "FAULT"});
  for (size_t i = 0; i < std::min(most, faults.size()); ++i)
    table.add({text_of(faults[i], "what"), text_of(faults[i], "fault")});
  const size_t left = faults.size() - std::min(most, faults.size());
  return table.text() + (left ? fmt::format("and {} more; 'softib status --json' has all\n", left) : "") + "\n";
}

}  // namespace softib::cli
