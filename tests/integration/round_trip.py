#!/usr/bin/env python3
"""Dumps made by the stock ibnetdiscover on running fabrics, imported again, give the same fabrics.

    round_trip.py [--softib PATH] [--filter REGEX]

Prints PASS, FAIL or SKIP for each case, and a total line.
"""

import pathlib
import re
import subprocess
import sys

from softib_fabric import ROOT
from suite import check, described, main_of, run

# What a dump has beside what generators make: enhanced port 0, LIDs and LMCs of one's own, descriptions with spaces and
# quotes, GUIDs of a system, makes, narrow and slow links, ports without cables, an aggregation node. Names come from
# descriptions.
ODD = """
fabric: default
hosts:
  - name: alpha
    hcas:
      - {name: mlx5_0, model: connectx-6, system_guid: 0xa088c20300abcd00,
         ports: [{guid: 0xa088c20300abcd01, lid: 0x40, lmc: 2}, {guid: 0xa088c20300abcd02, width: 2x}]}
      - {name: mlx5_1, model: connectx-6, system_guid: 0xa088c20300abcd00, ports: [{guid: 0x1, speed: EDR}]}
  - name: node-18-big
    hcas:
      - {description: 'node 18 "big" HCA-1', node_guid: 0xa088c20300abce00, vendor_id: 0x2c9, device_id: 0x673c,
         ports: [{guid: 0xa088c20300abce01}, {guid: 0xa088c20300abce02}]}
  - {name: MF0-leaf-1-U1-an, kind: aggregation, hcas: [{vendor_id: 0x2c9, device_id: 0xcf09}]}
switches:
  - {name: MF0-leaf-1-U1, description: "MF0;leaf 1/U1", ports: 41, enhanced_port0: true, lid: 0x10, lmc: 1,
     node_guid: 0x0000000000abcdef, port_guid: 0xabcdf0, system_guid: 0xabcdf1}
  - {name: spine, ports: 36, vendor_id: 0x2c9, device_id: 0xbd36}
  - {name: small, ports: 8, speed: FDR}
cables:
  - [alpha/mlx5_0/1, MF0-leaf-1-U1/1]
  - [alpha/mlx5_0/2, MF0-leaf-1-U1/2]
  - [alpha/mlx5_1/1, MF0-leaf-1-U1/3]
  - [node-18-big/mlx5_0/2, MF0-leaf-1-U1/20]
  - [MF0-leaf-1-U1-an/mlx5_0/1, MF0-leaf-1-U1/41]
  - {ends: [MF0-leaf-1-U1/39, spine/36], speed: EDR, width: 1x}
  - [MF0-leaf-1-U1/40, spine/35]
  - [spine/1, small/8]
"""

GENERATED = {
    "two tiers": ("fat-tree", "--hosts", "12", "--hcas", "2", "--radix", "8", "--speed", "EDR"),
    "three tiers": ("fat-tree", "--hosts", "24", "--radix", "6", "--tiers", "3", "--oversubscription", "2:1"),
    "superpod": ("superpod", "--generation", "hdr", "--units", "2"),
    "superpod of NDR": ("superpod", "--generation", "h100", "--units", "1"),
    "dragonfly": ("dragonfly", "--groups", "5", "--routers", "4", "--hosts", "2", "--global-links", "2"),
}


def topo(softib, *arguments, text=None):
    done = subprocess.run([softib, "topo", *arguments], input=text, capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"softib topo {' '.join(arguments)}: {done.stderr}")
    return done.stdout, done.stderr


def parts_of(yaml):
    """Hosts (whole), switches and cables, each sorted, as order means nothing.

    Without the name and the IP addresses, of which a dump knows nothing.
    """
    yaml = re.sub(r", address: [\d.]+", "", yaml)
    head, hosts, switches, cables = re.match(r"fabric: .*\n(.*?)^hosts:\n(.*)^switches:(.*)^cables:(.*)$", yaml,
                                             re.S | re.M).groups()
    ends = [re.sub(r"\[(.+?), (.+?)\]", lambda pair: " ".join(sorted(pair.groups())), line)
            for line in cables.splitlines() if line.strip()]
    blocks = sorted(re.split(r"^(?=  - name)", hosts, flags=re.M))
    return head.splitlines() + "".join(blocks).splitlines(), sorted(switches.splitlines()), sorted(ends)


def same(ours, theirs):
    for mine, other in zip(parts_of(ours), parts_of(theirs)):
        for number, (line, its) in enumerate(zip(mine, other), 1):
            check(line == its, f"line {number}: the fabric has\n      {line}\n    and its dump\n      {its}")
        check(len(mine) == len(other), f"{len(mine)} lines, and {len(other)} of the dump")


def dump_and_compare(softib, text, seconds=60):
    """The fabric of a description, and what comes back of it; both complete, as YAML."""
    with described(softib, text) as fabric:
        host = re.search(r'^  - name: "(\S+)"$', (fabric.directory() / "fabric.yaml").read_text(), re.M).group(1)
        status, dump = fabric.run(host, ["ibnetdiscover"], seconds)
        check(status == 0, dump)
        original = (fabric.directory() / "fabric.yaml").read_text()
    imported, warnings = topo(softib, "convert", "-", "--name", "again", text=dump)
    check(not warnings, warnings)
    same(original, imported)


def generated_fabrics_come_back(softib):
    for name, options in GENERATED.items():
        text, _ = topo(softib, "generate", *options, "--name", "default")
        try:
            dump_and_compare(softib, text)
        except Exception as fault:
            fault.args = (f"{name}: {fault}",)
            raise


def what_generators_do_not_make_comes_back(softib):
    dump_and_compare(softib, ODD)


def a_real_dump_runs_and_comes_back(softib):
    """Hand-written in a real one's form. What no cable leads to can't be found again, and the stock ibnetdiscover tells
    FDR10 from QDR only when it is told to (mlx_epi in ibdiag.conf)."""
    path = pathlib.Path(ROOT) / "tests" / "fabric" / "data" / "traps.ibnetdiscover"
    text, warnings = topo(softib, "convert", str(path), "--name", "default")
    check("ib router" in warnings, warnings)
    unlinked = re.search(r'^  - name: "node19"\n(?:    .*\n)+', text, re.M)
    check(unlinked, text)
    dump_and_compare(softib, text.replace(unlinked.group(0), "").replace("FDR10", "QDR"))


def an_aggregation_node_answers_and_runs_nothing(softib):
    with described(softib, ODD) as fabric:
        check("Mellanox Technologies Aggregation Node" in run(fabric, "alpha", "ibnetdiscover"), "ibnetdiscover")
        refused = fabric.call("run", "MF0-leaf-1-U1-an", "--", "true")
        check(refused.returncode == 125 and "aggregation node" in refused.stderr, refused.stderr)


CASES = (generated_fabrics_come_back, what_generators_do_not_make_comes_back, a_real_dump_runs_and_comes_back,
         an_aggregation_node_answers_and_runs_nothing)

if __name__ == "__main__":
    sys.exit(main_of(__doc__, CASES))
