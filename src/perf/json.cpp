#include "perf/json.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error_text.h"
#include "perf/report.h"

namespace softib::perf {

namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Members of the object that is open, without its braces.
std::string members(const Json& json) {
  const std::string text = dumped(json);
  return text.substr(1, text.size() - 2);
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json("nan"); }
const char* truth(bool value) { return value ? "true" : "false"; }  // as words, as nccl-tests has them

Json microseconds(const std::vector<double>& seconds) {
  Json list = Json::array();
  for (const double each : seconds) list.push_back(number(each * 1e6));
  return list;
}

Json json_of(const Device& device) {
  return {{"rank", device.rank},
          {"group", device.group},
          {"pid", device.process},
          {"hostname", device.host},
          {"device", device.index},
          {"device_hex", device.place},
          {"device_info", device.processor}};
}

Json json_of(const Options& options, const Measured& measured) {
  return {{options.cpu_time ? "cpu_time" : "time", number(measured.seconds * 1e6)},
          {"alg_bw", number(measured.bandwidth.algorithm)},
          {"bus_bw", number(measured.bandwidth.bus)},
          {"nwrong", measured.wrong ? Json(static_cast<double>(*measured.wrong)) : Json(nullptr)}};
}

Json json_of(const Iterations& iterations, u32 skipped) {
  const Summary summary = summary_of(iterations, skipped);
  Json json = {{"skipped_iterations", skipped},         {"min_us", number(summary.least * 1e6)},
               {"max_us", number(summary.most * 1e6)},  {"avg_us", number(summary.mean * 1e6)},
               {"p50_us", number(summary.p50 * 1e6)},   {"p95_us", number(summary.p95 * 1e6)},
               {"p99_us", number(summary.p99 * 1e6)},   {"stdev_us", number(summary.deviation * 1e6)},
               {"cv_pct", number(summary.variation())}, {"times_us", microseconds(iterations.seconds)}};
  for (const auto& process : iterations.by_process) json["per_process_max_times_us"].push_back(microseconds(process));
  return json;
}

void add_placement(Json& json, const std::string& name, const Options& options, const Measured& measured) {
  json[name] = json_of(options, measured);
  if (measured.iterations) json[name + "_per_iter"] = json_of(*measured.iterations, options.skipped);
}

}  // namespace

std::unique_ptr<JsonFile> JsonFile::create(const std::string& path, std::string& why) {
  std::string tried = path;
  for (int number = 0;; ++number) {
    if (std::FILE* file = std::fopen(tried.c_str(), "wxe")) return std::unique_ptr<JsonFile>(new JsonFile(tried, file));
    if (errno != EEXIST) break;
    tried = fmt::format("{}.{}", path, number);
  }
  why = fmt::format("{}: {}", tried, error_text());
  return nullptr;
}

JsonFile::~JsonFile() { std::fclose(file_); }

void JsonFile::put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

void JsonFile::begin(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  put("{" + members({{"version", 3},
                     {"start_time", time_of_day()},
                     {"args", arguments},
                     {"env", environment},
                     {"nccl_version", SOFTIB_PERF_VERSION_NUMBER}}));
}

void JsonFile::write_config(const Options& options, std::span<const Device> devices) {
  Json config = {{"nthreads", options.threads},
                 {"ngpus", options.per_thread},
                 {"minimum_bytes", options.min_bytes},
                 {"maximum_bytes", options.max_bytes}};
  if (options.step_factor > 1) {
    config["step_factor"] = options.step_factor;
  } else {
    config["step_bytes"] = options.step_bytes;
  }
  config["warmup_iters"] = options.warm_up;
  config["iterations"] = options.iterations;
  config["aggregated_iterations"] = options.aggregated;
  config["validation"] = options.checks;
  config["graph"] = 0;
  config["blocking_collectives"] = truth(options.blocking != Blocking::none);
  config["per_iter_timing"] = truth(options.per_iteration);
  config["per_iter_skip"] = options.skipped;
  config["parallel_init"] = truth(options.parallel_init);
  config["devices"] = Json::array();
  for (const Device& device : devices) config["devices"].push_back(json_of(device));
  put("," + members({{"config", config}}) + ",\"results\":[");
  in_rows_ = true;
}

void JsonFile::write_row(const Options& options, const Row& row) {
  Json json = {{"size", row.bytes},
               {"count", row.count},
               {"type", row.type},
               {"redop", row.op},
               {"root", fmt::format("{:6}", row.root)}};
  add_placement(json, "out_of_place", options, row.out_of_place);
  add_placement(json, "in_place", options, row.in_place);
  json["actual_iterations"] = options.iterations;
  json["experiment_name"] = "";
  put((has_rows_ ? "," : "") + dumped(json));
  has_rows_ = true;
}

void JsonFile::finish_rows() {
  if (in_rows_) put("]");
  in_rows_ = false;
}

void JsonFile::write_verdict(const Verdict& verdict) {
  finish_rows();
  const char* fast = verdict.checks_bandwidth() ? truth(verdict.is_fast_enough()) : "unchecked";
  put("," + members({{"out_of_bounds", {{"count", verdict.failures}, {"okay", truth(verdict.failures == 0)}}},
                     {"average_bus_bandwidth", {{"bandwidth", number(verdict.bandwidth)}, {"okay", fast}}}}));
}

void JsonFile::end(const std::string& error) {
  finish_rows();
  Json errors = Json::array();
  if (!error.empty()) errors.push_back(error);
  put("," + members({{"errors", errors}, {"end_time", time_of_day()}}) + "}\n");
}

}  // namespace softib::perf
