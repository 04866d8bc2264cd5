#include "perf/reporter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/error_text.h"
#include "perf/report.h"

namespace softib::perf {

Reporter::Reporter(const Options& options, std::string program, bool writes)
    : options_(options), program_(std::move(program)), writes_(writes), draws_(writes && !options.plot_file.empty()) {}

// Flushed: whoever reads along wants each row when it is there.
void Reporter::put(const std::string& text) {
  if (!writes_) return;
  if (progress_) progress_->hide();
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Reporter::begin(const std::vector<std::string>& arguments) {
  if (!writes_) return;
  if (!options_.json_file.empty()) {
    std::string why;
    json_ = JsonFile::create(options_.json_file, why);
    put(json_ ? fmt::format("# Writing JSON output to {}\n", json_->path())
              : fmt::format("# skipping json output; {}\n", why));
    std::vector<std::string> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
    if (json_) json_->begin(arguments, environment);
  }
  // Now, not after all that is to be drawn.
  if (draws_ && !std::ofstream(options_.plot_file, std::ios::app)) {
    put(fmt::format("# skipping the plot; {} can't be written: {}\n", options_.plot_file, error_text()));
    draws_ = false;
  }
  put(text_of_heading(options_, program_));
}

void Reporter::write_devices(std::span<const Device> devices) {
  for (const Device& device : devices) put(text_of_device(device));
  if (json_) json_->write_config(options_, devices);
}

void Reporter::write_columns(u64 rows) {
  put(text_of_columns(options_));
  progress_ = std::make_unique<Progress>(writes_ ? Progress::terminal() : std::nullopt, rows);
}

void Reporter::announce(const std::string& what) {
  if (progress_) progress_->show(what);
}

void Reporter::write_row(const Row& row, const std::string& remark) {
  put(remark + text_of_row(options_, row, time_of_day()));
  if (json_) json_->write_row(options_, row);
  if (progress_) progress_->step();
  if (draws_) add_points(row);
}

void Reporter::write_line(const std::string& line) { put(line + "\n"); }

void Reporter::add_points(const Row& row) {
  const auto add = [&](const char* placement, const Measured& measured) {
    std::string name = row.type;
    if (!row.op.empty() && row.op != "none") name += " " + row.op;
    if (row.root >= 0) name += fmt::format(" root {}", row.root);
    name += fmt::format(", {}", placement);
    auto curve = std::find_if(curves_.begin(), curves_.end(), [&](const Curve& each) { return each.name == name; });
    if (curve == curves_.end()) curve = curves_.insert(curves_.end(), {name, {}});
    curve->points.push_back({static_cast<double>(row.bytes), measured.bandwidth.bus});
  };
  add("out of place", row.out_of_place);
  add("in place", row.in_place);
}

void Reporter::write_verdict(const Verdict& verdict) {
  put(text_of_verdict(verdict, program_));
  if (json_) json_->write_verdict(verdict);
  draw();
}

void Reporter::draw() {
  if (!draws_) return;
  std::ofstream file(options_.plot_file);
  file << plot_svg(program_, curves_);
  file.close();
  put(file ? fmt::format("# Plot of bus bandwidth in {}\n", options_.plot_file)
           : fmt::format("# skipping the plot; {} can't be written\n", options_.plot_file));
}

void Reporter::write_memory(const MemoryUse& use) {
  if (options_.memory_report) put(text_of_memory(use));
}

void Reporter::end(const std::string& error) {
  put(text_of_end(error));
  if (json_) json_->end(error);
  json_.reset();
}

}  // namespace softib::perf
