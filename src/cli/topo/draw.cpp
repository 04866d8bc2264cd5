#include "fabric/topo/draw.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error_text.h"
#include "base/fd.h"
#include "cli/commands/commands.h"
#include "cli/topo/commands.h"

namespace softib::cli {

namespace {

constexpr const char* draw_examples =
    R"(Tiers stand from top to bottom. A number at a line says how many cables it stands for; links that do
not run at the usual rate are red and say theirs.

Examples:
  softib topo draw lab.yaml > lab.dot
  softib topo draw lab.yaml --svg -o lab.svg)";

struct DrawOptions {
  TopoInput input;
  std::string hosts;
  std::string output;
  bool svg = false;
};

constexpr size_t most_boxes = 64;  // more hosts than that are drawn as groups

fabric::topo::DrawHosts hosts_of(const DrawOptions& options, const fabric::Fabric& fabric) {
  bool each = options.hosts.empty() ? fabric.hosts.size() <= most_boxes : options.hosts == "each";
  return each ? fabric::topo::DrawHosts::each : fabric::topo::DrawHosts::count;
}

[[noreturn]] void become_dot(int input, int output) {
  if (::dup2(input, STDIN_FILENO) < 0 || (output >= 0 && ::dup2(output, STDOUT_FILENO) < 0)) ::_exit(not_executable);
  ::execlp("dot", "dot", "-Tsvg", static_cast<char*>(nullptr));
  ::_exit(errno == ENOENT ? not_found : not_executable);
}

bool feed(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

int dot_failed(int status, bool fed) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == not_found)
    return complain("Graphviz is needed for SVG, and 'dot' is not installed; without --svg its input is written");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return complain("'dot' has failed");
  return fed ? 0 : complain("'dot' did not read all of its input");
}

// dot reads everything before it writes anything, so that one pipe is enough.
int draw_svg(const std::string& graph, const std::string& output) {
  bool to_file = !output.empty() && output != "-";
  Fd file;
  if (to_file) file = Fd(::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (to_file && !file) return complain(fmt::format("cannot write {}: {}", output, error_text()));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) return complain("cannot make a pipe");
  Fd reading(ends[0]);
  Fd writing(ends[1]);
  pid_t child = ::fork();
  if (child < 0) return complain("cannot start 'dot'");
  if (child == 0) become_dot(reading.get(), to_file ? file.get() : -1);
  reading = Fd();
  ::signal(SIGPIPE, SIG_IGN);  // when there is no dot
  bool fed = feed(writing.get(), graph);
  writing = Fd();
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  int code = dot_failed(status, fed);
  if (code != 0 && to_file) ::unlink(output.c_str());
  return code;
}

int draw(const DrawOptions& options) {
  auto imported = read_input(options.input, Warnings::print);
  if (!imported) return complain(imported.error().text);
  std::string graph = fabric::topo::to_dot(imported->fabric, hosts_of(options, imported->fabric));
  return options.svg ? draw_svg(graph, options.output) : write_output(options.output, graph);
}

}  // namespace

void add_topo_draw(CLI::App& parent, int& exit_code) {
  auto options = std::make_shared<DrawOptions>();
  CLI::App* command = parent.add_subcommand("draw", "Draw a fabric as a graph for Graphviz, or as SVG by it");
  command->footer(draw_examples);
  add_input(*command, options->input);
  command->add_flag("--svg", options->svg, "SVG; needs Graphviz");
  command
      ->add_option("--hosts", options->hosts,
                   "each: a box for every host; count: one for those on the same switches "
                   "(default with more than 64 hosts)")
      ->check(CLI::IsMember({"each", "count"}))
      ->option_text("HOW");
  add_output(*command, options->output);
  command->callback([options, &exit_code] { exit_code = draw(*options); });
}

}  // namespace softib::cli
