// Everything that a run writes, by one of its ranks; those of the others write nothing.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "perf/json.h"
#include "perf/options.h"
#include "perf/plot.h"
#include "perf/progress.h"
#include "perf/results.h"

namespace softib::perf {

class Reporter {
 public:
  // `writes` on one rank only. `steps`: rows to come, 0 where there is no end to them.
  Reporter(const Options& options, std::string program, bool writes);

  // In this order.
  void begin(const std::vector<std::string>& arguments);
  void write_devices(std::span<const Device> devices);
  void write_columns(u64 rows);
  void announce(const std::string& what);  // the row that comes
  void write_row(const Row& row, const std::string& remark);
  void write_line(const std::string& line);
  void write_verdict(const Verdict& verdict);
  void write_memory(const MemoryUse& use);
  void end(const std::string& error);

 private:
  void put(const std::string& text);
  void add_points(const Row& row);
  void draw();

  const Options& options_;
  std::string program_;
  bool writes_;
  bool draws_;
  std::unique_ptr<JsonFile> json_;
  std::unique_ptr<Progress> progress_;
  std::vector<Curve> curves_;
};

}  // namespace softib::perf
