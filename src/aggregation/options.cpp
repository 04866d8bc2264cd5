#include "aggregation/options.h"

#include "coll/innetwork/messages.h"

namespace softib::aggregation {

tl::expected<Options, Ending> parse_command_line(int argc, const char* const* argv) {
  Options options;
  bool no_node = false;
  CommandLine line(
      "In-network reduction: is the aggregation node of the switch that each RDMA device here hangs on, and with\n"
      "--manager the one that makes trees of all nodes of the subnet.",
      "softib-aggregation");
  line.texts("--device", options.devices, "Only these devices; may be given several times", "NAME");
  line.flag("--manager", options.manager,
            "Is the aggregation manager of the subnet too; without it, nodes look for one");
  line.flag("--no-node", no_node, "The manager only");
  line.number("--max-jobs", options.most_jobs, 1, 4096, "Trees at one time, of the manager");
  line.number("--node-jobs", options.jobs_of_node, 1, 4096, "Jobs at one time, of a node");
  line.number("--radix", options.most_children, 1, 1024, "Children of a node");
  line.number("--segment", options.segment_bytes, 512, coll::innetwork::most_segment,
              "Bytes of a vector that are combined at once");
  line.number("--outstanding", options.outstanding, 1, 256, "Segments of a job that may be under way");
  line.number("--keep-alive", options.keep_alive_ms, 10, 3600000, "Who is silent for so long is probed, in ms");
  line.number("--lease", options.lease_s, 3, 86400, "Of the manager's service record, in s");
  line.descriptor("--ready-fd", options.ready_fd, "Descriptor that is written to, and closed, when all is up");
  line.flag("-v,--verbose", options.verbose, "Tell of each job and of each node's end of it");
  if (auto ending = line.parse(argc, argv)) return tl::unexpected<Ending>(*std::move(ending));
  options.node = !no_node;
  options.segment_bytes = options.segment_bytes / 64 * 64;
  if (!options.manager && no_node)
    return tl::unexpected<Ending>(Ending{2, "--no-node without --manager leaves nothing to do\n"});
  return options;
}

}  // namespace softib::aggregation
