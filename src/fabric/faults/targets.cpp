#include "fabric/faults/targets.h"

#include <algorithm>

#include "fabric/faults/ends.h"

namespace softib::fabric {

namespace {

std::string whole_pattern(TargetKind kind, std::string_view word) {
  for (const std::string_view everything : {"switch", "host", "link", "port"})
    if (word == everything) return "*";
  std::string pattern = is_pattern(word) ? std::string(word) : "*" + std::string(word) + "*";
  const bool end = kind == TargetKind::link || kind == TargetKind::port;
  if (end && pattern.find(':') == pattern.npos) pattern += ":*";
  return pattern;
}

// Both ends of every cable.
std::vector<std::string> cabled_ends(const Fabric& fabric) {
  std::vector<std::string> names;
  for (const Cable& cable : fabric.cables)
    for (const CableEnd& end : {cable.a, cable.b}) names.push_back(end_name(fabric, end));
  return names;
}

std::vector<std::string> names_of_switches(const Fabric& fabric) {
  std::vector<std::string> names;
  for (const Switch& sw : fabric.switches) names.push_back(sw.name);
  return names;
}

std::vector<std::string> names_of_servers(const Fabric& fabric) {
  std::vector<std::string> names;
  for (const Host& host : fabric.hosts)
    if (host.kind == HostKind::server) names.push_back(host.name);
  return names;
}

}  // namespace

bool is_pattern(std::string_view word) { return word.find_first_of("*?") != word.npos; }

// Goes back to the last '*' only: what an earlier one could take, the last one can as well.
bool fits(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = pattern.npos, mark = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != pattern.npos) {
      p = star + 1;
      n = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string> targets_of(const Fabric& fabric, TargetKind kind, std::string_view word) {
  const std::string pattern = whole_pattern(kind, word);
  std::vector<std::string> names;
  if (kind == TargetKind::sw)
    names = names_of_switches(fabric);
  else if (kind == TargetKind::host)
    names = names_of_servers(fabric);
  else
    names = cabled_ends(fabric);
  std::erase_if(names, [&](const std::string& name) { return !fits(pattern, name); });
  return names;
}

}  // namespace softib::fabric
