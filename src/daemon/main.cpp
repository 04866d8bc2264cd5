// softibd: owns one fabric for as long as it runs. Started by `softib up`; runs in the foreground.
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "daemon/server.h"
#include "fabric/runtime.h"
#include "options/command_line.h"

namespace {

using softib::fabric::Fabric;
using softib::fabric::Parsed;

struct Options {
  std::string dir;
  std::string fabric_file;
  softib::daemon::Programs programs;
};

bool is_stderr(const std::string& path) {
  struct stat file {};
  struct stat own {};
  return ::stat(path.c_str(), &file) == 0 && ::fstat(STDERR_FILENO, &own) == 0 && file.st_dev == own.st_dev &&
         file.st_ino == own.st_ino;
}

// To daemon.log, and to stderr as well where that is something else (a terminal, a service's journal).
void set_up_log(const std::string& dir) {
  std::string path = dir + "/daemon.log";
  std::vector<spdlog::sink_ptr> sinks{std::make_shared<spdlog::sinks::stderr_color_sink_st>()};
  if (!is_stderr(path)) sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_st>(path));
  auto logger = std::make_shared<spdlog::logger>("softibd", sinks.begin(), sinks.end());
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(logger);
}

// The named file, else the folder's own, else the default fabric. The folder keeps a copy of what runs.
Parsed<Fabric> load_fabric(const Options& options) {
  std::string kept = options.dir + "/fabric.yaml";
  std::string source = options.fabric_file.empty() ? kept : options.fabric_file;
  if (options.fabric_file.empty() && ::access(kept.c_str(), F_OK) != 0) {
    Fabric fabric = softib::fabric::default_fabric(std::filesystem::path(options.dir).filename().string());
    (void)softib::fabric::write_file(kept, softib::fabric::to_yaml(fabric));
    return fabric;
  }
  auto fabric = softib::fabric::load(source);
  if (fabric && source != kept) (void)softib::fabric::write_file(kept, softib::fabric::to_yaml(*fabric));
  return fabric;
}

int fail_with(const std::string& text) {
  spdlog::error(text);
  return 1;
}

int serve(const Options& options) {
  auto files = softib::daemon::RuntimeFiles::claim(options.dir);
  if (!files) {
    std::fprintf(stderr, "softibd: %s\n", files.error().text.c_str());
    return 1;
  }
  set_up_log(options.dir);
  auto fabric = load_fabric(options);
  if (!fabric) return fail_with(fabric.error().text);
  spdlog::info("fabric {} starts in {}", fabric->name, options.dir);
  auto server = softib::daemon::Server::create(std::move(*files), std::move(*fabric), options.programs);
  if (!server) return fail_with(server.error().text);
  (*server)->run();
  spdlog::info("ends");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  softib::CommandLine line("The daemon of a SoftIB fabric");
  line.required_text("--dir", options.dir, "The fabric's runtime folder");
  line.text("--fabric-file", options.fabric_file, "Description of the fabric (default: fabric.yaml in the folder)");
  line.text("--opensm", options.programs.opensm, "The stock subnet manager, for 'sm: opensm'");
  line.text("--hosts-keeper", options.programs.hosts_keeper, "What gives hosts namespaces of their own");
  line.text("--aggregation", options.programs.aggregation, "What makes aggregation nodes work: softib-aggregation");
  line.text("--preload-library", options.programs.preload_library, "What makes a program run on a host");
  if (const auto ending = line.parse(argc, argv)) {
    std::fputs(ending->text.c_str(), ending->status ? stderr : stdout);
    return ending->status;
  }
  options.dir = std::filesystem::absolute(options.dir).lexically_normal();
  if (!std::filesystem::path(options.dir).has_filename()) options.dir.pop_back();
  try {
    return serve(options);
  } catch (const std::exception& error) {  // out of memory, or a log that can't be written
    std::fprintf(stderr, "softibd: %s\n", error.what());
    return 1;
  }
}
