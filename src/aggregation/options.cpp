#include "aggregation/options.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "coll/innetwork/messages.h"

namespace softib::aggregation {

tl::expected<Options, Ending> parse_command_line(int argc, const char* const* argv) {
  Options options;
  bool no_node = false;
  CLI::App app(
      "In-network reduction: is the aggregation node of the switch that each RDMA device here hangs on, and with\n"
      "--manager the one that makes trees of all nodes of the subnet.",
      "softib-aggregation");
  app.set_help_flag("-h,--help", "This text");
  app.add_option("--device", options.devices, "Only these devices; may be given several times")->type_name("NAME");
  app.add_flag("--manager", options.manager,
               "Is the aggregation manager of the subnet too; without it, nodes look for one");
  app.add_flag("--no-node", no_node, "The manager only");
  app.add_option("--max-jobs", options.most_jobs, "Trees at one time, of the manager")->check(CLI::Range(1, 4096));
  app.add_option("--node-jobs", options.jobs_of_node, "Jobs at one time, of a node")->check(CLI::Range(1, 4096));
  app.add_option("--radix", options.most_children, "Children of a node")->check(CLI::Range(1, 1024));
  app.add_option("--segment", options.segment_bytes, "Bytes of a vector that are combined at once")
      ->check(CLI::Range(512U, coll::innetwork::most_segment));
  app.add_option("--outstanding", options.outstanding, "Segments of a job that may be under way")
      ->check(CLI::Range(1, 256));
  app.add_option("--keep-alive", options.keep_alive_ms, "Who is silent for so long is probed, in ms")
      ->check(CLI::Range(10, 3600000));
  app.add_option("--lease", options.lease_s, "Of the manager's service record, in s")->check(CLI::Range(3, 86400));
  app.add_option("--ready-fd", options.ready_fd, "Descriptor that is written to, and closed, when all is up");
  app.add_flag("-v,--verbose", options.verbose, "Tell of each job and of each node's end of it");
  app.get_formatter()->column_width(32);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream err;
    const int status = app.exit(error, out, err);
    return tl::unexpected<Ending>(Ending{status == 0 ? 0 : 2, out.str() + err.str()});
  }
  options.node = !no_node;
  options.segment_bytes = options.segment_bytes / 64 * 64;
  if (!options.manager && no_node)
    return tl::unexpected<Ending>(Ending{2, "--no-node without --manager leaves nothing to do\n"});
  return options;
}

}  // namespace softib::aggregation
