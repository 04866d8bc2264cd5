// The results as a file, with the structure of nccl-tests' (version 3). Written as the run goes on, so that a run that
// is broken off leaves what it had; end() makes it whole.
#pragma once

#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "perf/options.h"
#include "perf/results.h"

namespace softib::perf {

class JsonFile {
 public:
  // Makes `path`, or the first of path.0, path.1, ... that isn't there. Null with a reason in `why` where that fails.
  [[nodiscard]] static std::unique_ptr<JsonFile> create(const std::string& path, std::string& why);
  ~JsonFile();
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

  // In this order.
  void begin(const std::vector<std::string>& arguments, const std::vector<std::string>& environment);
  void write_config(const Options& options, std::span<const Device> devices);
  void write_row(const Options& options, const Row& row);
  void write_verdict(const Verdict& verdict);
  void end(const std::string& error);

 private:
  JsonFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  void put(const std::string& text);
  void finish_rows();

  std::string path_;
  std::FILE* file_;
  bool in_rows_ = false;
  bool has_rows_ = false;
};

}  // namespace softib::perf
