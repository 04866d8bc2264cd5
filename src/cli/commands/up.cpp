#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "base/error_text.h"
#include "cli/commands/commands.h"
#include "cli/daemon_process.h"
#include "cli/installation.h"
#include "cli/interrupts.h"
#include "cli/session_folder.h"
#include "cli/status_query.h"
#include "cli/stock_managers.h"
#include "fabric/runtime.h"

namespace softib::cli {

namespace {

constexpr const char* up_examples =
    R"(Without a file: two hosts, host0 and host1, with one HCA mlx5_0 each, on one switch.

Examples:
  softib up
  softib up lab.yaml
  softib up --name roce --link-layer ethernet)";

struct UpOptions {
  std::string file;
  std::string name;
  std::string link_layer;
  std::string namespaces;
};

// What neither the command line nor the fabric file says.
std::optional<fabric::Namespaces> namespaces_of_environment() {
  const char* value = std::getenv("SOFTIB_NAMESPACES");
  for (auto use : {fabric::Namespaces::automatic, fabric::Namespaces::on, fabric::Namespaces::off})
    if (value && fabric::name_of(use) == value) return use;
  return std::nullopt;
}

fabric::Parsed<fabric::Fabric> default_one(const fabric::Overrides& over) {
  return fabric::default_fabric(over.name.value_or("default"), over.link_layer.value_or(fabric::LinkLayer::infiniband));
}

fabric::Parsed<fabric::Fabric> describe(const UpOptions& options) {
  fabric::Overrides over;
  if (!options.name.empty()) over.name = options.name;
  if (!options.link_layer.empty())
    over.link_layer = options.link_layer == "ethernet" ? fabric::LinkLayer::ethernet : fabric::LinkLayer::infiniband;
  auto fabric = options.file.empty() ? default_one(over) : fabric::load(options.file, over);
  if (!fabric) return fabric;
  for (auto use : {fabric::Namespaces::automatic, fabric::Namespaces::on, fabric::Namespaces::off})
    if (options.namespaces == fabric::name_of(use)) fabric->namespaces = use;
  if (options.namespaces.empty() && fabric->namespaces == fabric::Namespaces::automatic)
    fabric->namespaces = namespaces_of_environment().value_or(fabric->namespaces);
  return fabric;
}

// Where hosts are less than they could be, why.
void tell_of_namespaces(const fabric::Fabric& fabric, const std::string& dir) {
  if (fabric.namespaces == fabric::Namespaces::off) return;
  auto status = query_status(dir);
  if (!status) return;
  const nlohmann::json& namespaces = (*status)["namespaces"];
  const std::string note = namespaces.value("note", "");
  if (namespaces.value("kind", "") == "plain")
    fmt::print(stderr,
               "softib: note: hosts have no network and no name of their own, they share this machine's: {}\n"
               "        ('softib up --namespaces off' says so without this note)\n",
               note);
}

// Hosts where programs run, and what switches have in their place.
struct Sizes {
  size_t hosts = 0;
  size_t hcas = 0;
  size_t aggregation_nodes = 0;
};

Sizes sizes_of(const fabric::Fabric& fabric) {
  Sizes sizes;
  for (const fabric::Host& host : fabric.hosts) {
    const bool is_server = host.kind == fabric::HostKind::server;
    (is_server ? sizes.hcas : sizes.aggregation_nodes) += host.hcas.size();
    sizes.hosts += is_server;
  }
  return sizes;
}

// To try something on.
std::string first_host(const fabric::Fabric& fabric) {
  for (const fabric::Host& host : fabric.hosts)
    if (host.kind == fabric::HostKind::server) return host.name;
  return "HOST";
}

std::string counted(size_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

void announce(const fabric::Fabric& fabric) {
  const Sizes sizes = sizes_of(fabric);
  std::string nodes;
  if (sizes.aggregation_nodes) nodes = counted(sizes.aggregation_nodes, "aggregation node", "aggregation nodes") + ", ";
  fmt::print("fabric '{}' is up: {}, {}, {}, {}{}\n", fabric.name, counted(sizes.hosts, "host", "hosts"),
             counted(sizes.hcas, "HCA", "HCAs"), counted(fabric.switches.size(), "switch", "switches"), nodes,
             fabric::to_string(fabric.link_layer));
  std::string name = fabric.name == "default" ? "" : fmt::format("--name {} ", fabric.name);
  fmt::print("try: softib run {}{} -- ibv_devinfo\n", name, first_host(fabric));
}

int already_running(const fabric::Fabric& fabric, const std::string& dir) {
  auto text = fabric::read_file(dir + "/fabric.yaml");
  if (text && *text == fabric::to_yaml(fabric)) {
    fmt::print("fabric '{}' is running already\n", fabric.name);
    return 0;
  }
  return complain(
      fmt::format("fabric '{}' is running with another description; end it with '{}', or choose another --name",
                  fabric.name, command_for("down", fabric.name)));
}

// Into a folder that holds nothing but the lock. What an interrupt or a failure leaves of it is taken away.
fabric::Parsed<void> start(const fabric::Fabric& fabric, const std::string& dir,
                           const std::vector<std::string>& daemon_options, Interrupts& interrupts) {
  if (auto written = fabric::write_file(dir + "/fabric.yaml", fabric::to_yaml(fabric)); !written)
    return fabric::refuse(fmt::format("cannot write {}/fabric.yaml: {}", dir, error_text(written.error())));
  if (auto started = start_daemon(dir, daemon_options, interrupts); !started)
    return tl::unexpected<fabric::Error>(started.error());
  auto managed = wait_for_managers(fabric, dir, interrupts);
  if (managed) managed = wait_for_aggregation(fabric, dir, interrupts);
  if (!managed) (void)stop_daemon(dir);
  return managed;
}

int up(const UpOptions& options) {
  auto fabric = describe(options);
  if (!fabric) return complain(fabric.error().text);
  if (auto program = find_daemon(); !program) return complain(program.error().text);
  auto daemon_options = options_for_daemon(*fabric);
  if (!daemon_options) return complain(daemon_options.error().text);
  auto folder = lock_folder(fabric->name, true);
  if (!folder) return complain(folder.error().text);
  if (fabric::liveness(folder->path) == fabric::Liveness::running) return already_running(*fabric, folder->path);
  // What is there was left behind by a daemon that died.
  if (auto emptied = empty_folder(folder->path); !emptied) return complain(emptied.error().text);
  Interrupts interrupts;
  auto started = start(*fabric, folder->path, *daemon_options, interrupts);
  if (interrupts.came_within(std::chrono::nanoseconds(0))) {
    if (started) (void)stop_daemon(folder->path);
    (void)remove_folder(folder->path);
    complain(fmt::format("interrupted; fabric '{}' is not up", fabric->name));
    interrupts.die();
  }
  if (!started) return complain(started.error().text);
  announce(*fabric);
  tell_of_namespaces(*fabric, folder->path);
  return 0;
}

}  // namespace

void add_up(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<UpOptions>();
  CLI::App* command = app.add_subcommand("up", "Start a fabric");
  command->footer(up_examples);
  command->add_option("FABRIC.yaml", options->file, "Description of the fabric")->option_text(" ");
  add_name(*command, options->name)->description("Name of the fabric, over the file's");
  command->add_option("--link-layer", options->link_layer, "infiniband or ethernet, over the file's")
      ->check(CLI::IsMember({"infiniband", "ethernet"}));
  command
      ->add_option(
          "--namespaces", options->namespaces,
          "Whether hosts have network, name and files of their own: auto, on (or fail) or off, over the file's")
      ->check(CLI::IsMember({"auto", "on", "off"}));
  command->callback([options, &exit_code] { exit_code = up(*options); });
}

}  // namespace softib::cli
