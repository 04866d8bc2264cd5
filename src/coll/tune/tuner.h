// Chooses how a collective is done. A pure function of what all ranks know alike, so that all choose the same.
#pragma once

#include <string>
#include <vector>

#include "coll/environment.h"
#include "coll/schedule/algorithms.h"
#include "coll/tune/landscape.h"
#include "coll/tune/rules.h"

namespace softib::coll {

struct Question {
  Collective collective = Collective::all_reduce;
  // Of the whole: the larger one of input and output; of all_to_all, one rank's input. Where ranks don't know each
  // other's counts: 0, and `known` is false.
  u64 bytes = 0;
  bool known = true;
  bool equal = true;  // all blocks have one size
};

struct Choice {
  enum class By : u8 { rule, file, model };

  const AlgorithmRow* row = nullptr;
  u32 lanes = 1;
  u32 window = 1;  // lanes under way at once
  By by = By::model;
  double microseconds = 0;  // as the model has it
};

class Tuner {
 public:
  Tuner(Landscape landscape, std::vector<AlgorithmRule> rules, std::vector<TuningLine> lines);

  // SOFTIB_ALGO's rules first, then the tuning file's lines, then the model.
  [[nodiscard]] Choice choose(const Question& question) const;
  // "all_reduce of 1048576 bytes: direct, 4 lanes (61 us by the model; ring 80 us, ...)"
  [[nodiscard]] std::string explain(const Question& question) const;
  // "ring,chain": what SOFTIB_ALGO names for a collective that can be done by none of it, so that the choice is free;
  // empty: it can, or nothing is named. Where the network doesn't combine, that has been told already.
  [[nodiscard]] std::string unmet(const Question& question) const;
  // Equal on ranks that choose alike.
  [[nodiscard]] u64 digest() const;
  [[nodiscard]] const Landscape& landscape() const { return landscape_; }

 private:
  [[nodiscard]] bool fits(const AlgorithmRow& row, const Question& question) const;
  [[nodiscard]] bool is_allowed(const AlgorithmRow& row) const;
  [[nodiscard]] bool may_model(const AlgorithmRow& row) const;
  [[nodiscard]] const AlgorithmRow* named(const Question& question) const;
  [[nodiscard]] std::vector<Choice> modelled(const Question& question) const;
  [[nodiscard]] Choice by_model(const AlgorithmRow& row, const Question& question) const;

  Landscape landscape_;
  u32 hosts_;
  std::vector<AlgorithmRule> rules_;
  std::vector<TuningLine> lines_;
};

}  // namespace softib::coll
