#!/usr/bin/env python3
"""What switches and links do to the traffic of real programs: forwarding, losses, paced links.

    data_path.py [--softib PATH] [--filter REGEX]

Prints PASS, FAIL or SKIP for each case, and a total line.
"""

import pathlib
import re
import sys
import time

from management import TREE, data_counters, node_lids
from softib_fabric import free_port, wait_listening
from suite import Suite, check, new_parser, run

HERE = pathlib.Path(__file__).resolve().parent
NOWHERE = 255
SERVER = "\n-- the server:\n"

PACED = """
fabric: default
pace: true
hosts: [alpha, beta]
switches: [{name: leaf0, ports: 8}]
cables:
  - {ends: [alpha/mlx5_0, leaf0/1], speed: SDR}
  - [beta/mlx5_0, leaf0/2]
"""


def forwarding_entry(fabric, switch, lid, port=None):
    words = [str(switch), str(lid)] + ([] if port is None else [str(port)])
    return int(run(fabric, "beta", sys.executable, str(HERE / "forwarding_entry.py"), *words))

KEYS = """
fabric: default
hosts:
  - {name: alpha, hcas: [{pkeys: [0xffff, 0x8001]}]}
  - {name: beta, hcas: [{pkeys: [0xffff, 0x8002]}]}
switches: [{name: leaf0, ports: 8}]
"""


class Pair:
    """A perftest or pingpong program on gamma, or another host, and its client on alpha."""

    def __init__(self, fabric, argv, server="gamma"):
        port = str(free_port())
        self.server = fabric.start(server, [*argv, "-p", port])
        self.listening = wait_listening(self.server, int(port))
        self.client = fabric.start("alpha", [*argv, "-p", port, "localhost"])

    def finish(self, seconds=60):
        """Status and output of the client; both ends are gone afterwards."""
        status = self.client.wait(seconds)
        self.client.stop()
        self.server.stop()
        return status, self.client.output() + SERVER + self.server.output()


def bandwidth(text):
    """Average that the client of a pair measured, in the units of --report_gbits."""
    text = text.split(SERVER)[0]
    rows = re.findall(r"^ *\d+ +\d+ +[\d.]+ +([\d.]+)\s+[\d.]+ *$", text, re.M)
    check(rows, text)
    return float(rows[-1])


# -- cases -------------------------------------------------------------------------------------------------------------


def wiped_entry_loses_traffic_until_restored(fabric):
    """Loss, error completion, counter, recovery."""
    known = node_lids(fabric)
    leaf, gamma = known["leaf0"], known["gamma mlx5_0"]
    port = forwarding_entry(fabric, leaf, gamma)
    check(port == 7, f"leaf0 forwards {gamma} to {port}")
    pair = Pair(fabric, ["ib_write_bw", "-D", "60", "-u", "8"])
    check(pair.listening, pair.server.output())
    before = data_counters(fabric, leaf, 1)
    for _ in range(100):
        time.sleep(0.05)
        if data_counters(fabric, leaf, 1)["PortRcvPkts"] > before["PortRcvPkts"] + 1000:
            break
    check(forwarding_entry(fabric, leaf, gamma, NOWHERE) == NOWHERE, "the entry was not taken")
    status, output = pair.finish()
    check(status not in (0, None) and "status 12" in output, f"status {status}\n{output}")
    errors = run(fabric, "beta", "perfquery", str(leaf), "1")
    relayed = int(re.search(r"PortRcvSwitchRelayErrors:\.+(\d+)", errors).group(1))
    check(relayed > 0, errors)

    forwarding_entry(fabric, leaf, gamma, port)
    status, output = Pair(fabric, ["ib_write_bw", "-n", "200"]).finish()
    check(status == 0, f"status {status}\n{output}")
    after = run(fabric, "beta", "perfquery", str(leaf), "1")
    check(int(re.search(r"PortRcvSwitchRelayErrors:\.+(\d+)", after).group(1)) == relayed, after)


def way_back_counts_too(fabric):
    """Answers that have no way are as bad as none."""
    known = node_lids(fabric)
    leaf, alpha = known["leaf1"], known["alpha mlx5_0"]
    port = forwarding_entry(fabric, leaf, alpha, NOWHERE)
    check(port == NOWHERE, str(port))
    try:
        status, output = Pair(fabric, ["ib_write_bw", "-n", "200", "-u", "8"]).finish()
        check(status not in (0, None), f"status {status}\n{output}")
        errors = run(fabric, "beta", "perfquery", "-a", str(leaf))
        check(re.search(r"PortRcvSwitchRelayErrors:\.+[1-9]", errors), f"answers are counted where they end\n{errors}")
    finally:
        forwarding_entry(fabric, leaf, alpha, 7)
    status, output = Pair(fabric, ["ib_write_bw", "-n", "200"]).finish()
    check(status == 0, f"status {status}\n{output}")


def paced_link_holds_to_its_rate(fabric):
    """A 4X SDR link carries 8 Gb/s, of which headers take some."""
    for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        status, output = Pair(fabric, [program, "-s", "65536", "-n", "2000", "--report_gbits"], "beta").finish()
        check(status == 0, output)
        check(1 < bandwidth(output) <= 8.0, f"{program}: {bandwidth(output)} Gb/s\n{output}")
        print(f"     {program} over 4X SDR: {bandwidth(output)} Gb/s")


def paced_link_is_shared(fabric):
    """Two programs get no more than one; what waits is counted."""
    # Measured in the middle two of six seconds, when both run.
    argv = ["ib_read_bw", "-s", "65536", "-D", "6", "--report_gbits"]
    total = 0.0
    for pair in [Pair(fabric, argv, "beta") for _ in range(2)]:
        status, output = pair.finish()
        check(status == 0, output)
        total += bandwidth(output)
    check(1 < total <= 8.0 * 1.02, f"{total} Gb/s together")
    # Nothing waits where the link itself is slow; what beta sends to it does.
    lids = node_lids(fabric)
    waits = {}
    for name in ("alpha mlx5_0", "beta mlx5_0"):
        counters = run(fabric, "beta", "perfquery", str(lids[name]), "1")
        waits[name] = int(re.search(r"PortXmitWait:\.+(\d+)", counters).group(1))
    check(waits["beta mlx5_0"] > 0 == waits["alpha mlx5_0"], f"PortXmitWait {waits}")


def violations(fabric, name):
    """Bad P_Keys and Q_Keys that a port tells of."""
    text = run(fabric, "alpha", "smpquery", "portinfo", str(node_lids(fabric)[name]), "1")
    return tuple(int(re.search(rf"{key}[Vv]iolations:\.+(\d+)", text).group(1)) for key in ("P_?[Kk]ey", "Q_?[Kk]ey"))


def wrong_partition_is_refused_and_counted(fabric):
    """Each by the end that refuses, and nowhere else."""
    check(violations(fabric, "beta mlx5_0") == (0, 0), "violations before there was anything")
    status, output = Pair(fabric, ["ib_write_bw", "-n", "5", "-u", "8", "--pkey_index", "1"], "beta").finish()
    check(status not in (0, None) and "status 12" in output, f"status {status}\n{output}")
    refused, _ = violations(fabric, "beta mlx5_0")
    check(refused == 8, f"{refused} violations of a request and its 7 retries")
    check(violations(fabric, "alpha mlx5_0") == (0, 0), "the sender's own port")
    status, output = Pair(fabric, ["ib_write_bw", "-n", "5"], "beta").finish()
    check(status == 0, output)


CASES = (
    (TREE, (wiped_entry_loses_traffic_until_restored, way_back_counts_too)),
    (KEYS, (wrong_partition_is_refused_and_counted,)),
    (PACED, (paced_link_holds_to_its_rate, paced_link_is_shared)),
)


def main():
    suite = Suite(new_parser(__doc__))
    for text, cases in CASES:
        suite.on(text, cases)
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
