#include "coll/tune/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coll/tune/model.h"

namespace softib::coll {

namespace {

constexpr u32 most_modelled_lanes = 256;

// Slices are cut into a part for each rank, which must not become short.
u64 slice_of(const LinkRow& link, Collective collective, u32 ranks) {
  if (collective != Collective::all_reduce) return link.lane_bytes;
  return std::clamp(link.pair_bytes * ranks / 2, link.pair_bytes, link.lane_bytes);
}

u64 mixed(u64 hash, u64 value) { return (hash ^ value) * 0x9e3779b97f4a7c15 + (hash >> 29); }

}  // namespace

Tuner::Tuner(Landscape landscape, std::vector<AlgorithmRule> rules, std::vector<TuningLine> lines)
    : landscape_(std::move(landscape)),
      hosts_(landscape_.host_count()),
      rules_(std::move(rules)),
      lines_(std::move(lines)) {}

bool Tuner::fits(const AlgorithmRow& row, const Question& question) const {
  if (row.collective != question.collective) return false;
  if (row.counts == Counts::equal && !question.equal) return false;
  if (row.algorithm == Algorithm::innetwork) return landscape_.network != Landscape::Network::none;
  // On one host there is nothing to divide.
  return row.algorithm != Algorithm::hierarchical || (hosts_ > 1 && landscape_.most_on_a_host() > 1);
}

// The network combines for those alone who asked for it.
bool Tuner::may_model(const AlgorithmRow& row) const {
  return row.algorithm != Algorithm::innetwork || landscape_.network == Landscape::Network::any;
}

// By rules that only exclude.
bool Tuner::is_allowed(const AlgorithmRow& row) const {
  return std::none_of(rules_.begin(), rules_.end(), [&row](const AlgorithmRule& rule) {
    return rule.all_but && (!rule.collective || *rule.collective == row.collective) &&
           std::find(rule.algorithms.begin(), rule.algorithms.end(), row.algorithm) != rule.algorithms.end();
  });
}

// The first one of a rule for this collective that can be, else of a rule for all.
const AlgorithmRow* Tuner::named(const Question& question) const {
  for (const bool special : {true, false})
    for (const AlgorithmRule& rule : rules_) {
      if (rule.all_but || rule.collective.has_value() != special) continue;
      if (special && *rule.collective != question.collective) continue;
      for (const Algorithm algorithm : rule.algorithms) {
        const AlgorithmRow* row = find_algorithm(question.collective, algorithm);
        if (row != nullptr && fits(*row, question)) return row;
      }
    }
  return nullptr;
}

std::string Tuner::unmet(const Question& question) const {
  if (named(question) != nullptr) return {};
  std::string names;
  for (const AlgorithmRule& rule : rules_) {
    if (rule.all_but || (rule.collective && *rule.collective != question.collective)) continue;
    for (const Algorithm algorithm : rule.algorithms) {
      if (algorithm == Algorithm::innetwork && landscape_.network == Landscape::Network::none) continue;
      names += (names.empty() ? "" : ",") + std::string(name_of(algorithm));
    }
  }
  return names;
}

Choice Tuner::by_model(const AlgorithmRow& row, const Question& question) const {
  const LinkRow& link = link_row(hosts_ == 1 ? landscape_.within : landscape_.between);
  const u64 wanted = question.known ? question.bytes / slice_of(link, question.collective, landscape_.ranks) : 1;
  Choice choice{&row, static_cast<u32>(std::clamp<u64>(wanted, row.least_lanes, most_modelled_lanes)), link.window};
  choice.window = std::max(choice.window, row.least_lanes);
  choice.microseconds = modelled_time(row, landscape_, question.bytes, choice.lanes);
  return choice;
}

// The best first.
std::vector<Choice> Tuner::modelled(const Question& question) const {
  std::vector<Choice> choices;
  for (const AlgorithmRow& row : algorithms())
    if (fits(row, question) && is_allowed(row) && may_model(row)) choices.push_back(by_model(row, question));
  if (choices.empty())  // all are excluded: one of them must do
    for (const AlgorithmRow& row : algorithms())
      if (fits(row, question) && may_model(row)) choices.push_back(by_model(row, question));
  std::stable_sort(choices.begin(), choices.end(),
                   [](const Choice& a, const Choice& b) { return a.microseconds < b.microseconds; });
  return choices;
}

Choice Tuner::choose(const Question& question) const {
  if (const AlgorithmRow* row = named(question)) {
    Choice choice = by_model(*row, question);
    choice.by = Choice::By::rule;
    return choice;
  }
  for (const TuningLine& line : lines_) {
    if (line.collective != question.collective || !question.known) continue;
    if (line.ranks && *line.ranks != landscape_.ranks) continue;
    if (line.hosts && *line.hosts != hosts_) continue;
    if (line.up_to && question.bytes > *line.up_to) continue;
    const AlgorithmRow* row = find_algorithm(line.collective, line.algorithm);
    if (fits(*row, question) && is_allowed(*row)) return {row, line.lanes, line.window, Choice::By::file};
  }
  return modelled(question).front();
}

std::string Tuner::explain(const Question& question) const {
  const Choice choice = choose(question);
  std::string text = fmt::format("{} of {} bytes: {}, {} lane{}", name_of(question.collective), question.bytes,
                                 name_of(choice.row->algorithm), choice.lanes, choice.lanes == 1 ? "" : "s");
  if (choice.by == Choice::By::rule) return text + " (SOFTIB_ALGO)";
  if (choice.by == Choice::By::file) return text + " (SOFTIB_TUNING_FILE)";
  text += " (by the model";
  for (const Choice& each : modelled(question))
    text += fmt::format(", {} {:.1f} us", name_of(each.row->algorithm), each.microseconds);
  return text + ")";
}

u64 Tuner::digest() const {
  u64 hash = 1;
  for (const AlgorithmRule& rule : rules_) {
    hash = mixed(hash, rule.collective ? static_cast<u64>(*rule.collective) + 1 : 0);
    hash = mixed(hash, rule.all_but ? 1 : 2);
    for (const Algorithm algorithm : rule.algorithms) hash = mixed(hash, static_cast<u64>(algorithm));
  }
  for (const TuningLine& line : lines_) {
    hash = mixed(hash, static_cast<u64>(line.collective) << 8 | static_cast<u64>(line.algorithm));
    hash = mixed(hash, u64{line.ranks.value_or(~0U)} << 32 | line.hosts.value_or(~0U));
    hash = mixed(hash, line.up_to.value_or(~u64{0}));
    hash = mixed(hash, u64{line.lanes} << 32 | line.window);
  }
  return hash;
}

}  // namespace softib::coll
