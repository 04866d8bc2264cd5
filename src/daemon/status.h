// What `softib status` shows, as JSON:
//
//   { "fabric": "default", "link_layer": "InfiniBand", "daemon_pid": 4711, "uptime_s": 12,
//     "hosts": [ { "name": "host0",
//                  "devices": [ { "name": "mlx5_0", "node_guid": "5254:00ff:fe00:0001",
//                                 "ports": [ { "number": 1, "state": "ACTIVE", "lid": 1, "sm_lid": 1,
//                                              "rate": "200 Gb/sec (4X HDR)", "gids": [ "fe80:..." ] } ] } ] } ],
//     "namespaces": { "kind": "namespaces", "keeper_pid": 4712, "user_namespace": false, "own_pids": false,
//                     "link": "sib-default", "note": "" },      or { "kind": "plain" | "lost", "note": "why" }
//     "subnet_managers": [ { "kind": "builtin", "place": "sw0", "state": "MASTER", "subnet_up": true },
//                          { "kind": "opensm", "place": "host0/mlx5_0/1", "state": "running", "running": true,
//                            "pid": 815, "log": "/...", "output": "/...", "subnet_up": true } ],
//     "processes": [ { "pid": 815, "slot": 1, "host": "host0", "program": "ib_write_bw", "memory_bytes": 65536,
//                      "objects": { "context": 1, "pd": 1, "mr": 1, "mw": 0, "cq": 1, "srq": 0, "qp": 1, "ah": 0,
//                                   "channel": 0 } } ],
//     "faults": [ { "what": "leaf0:1 - host0/mlx5_0:1", "fault": "down" } ],
//     "objects": { as above, the sum of all processes },
//     "memory": { "segment_bytes": 1048576, "arena_bytes": 524288 } }
//
// An object counts for the process that made it. `memory_bytes` is what the process's memory file holds,
// `segment_bytes` what the segment takes in all, `arena_bytes` the part given out for rings.
#pragma once

#include <string>

namespace softib::daemon {

class Control;

[[nodiscard]] std::string status_text(const Control& control);

// What `softib link` shows, as a JSON list (daemon/fault_report.h); empty on Ethernet.
[[nodiscard]] std::string links_text(const Control& control);

}  // namespace softib::daemon
