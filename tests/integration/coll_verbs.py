#!/usr/bin/env python3
"""The verbs transport of collectives on fabrics: its contract, ranks on two hosts, what it says, and failures.

    coll_verbs.py [--softib PATH] [--filter REGEX] [--full]

Prints PASS, FAIL or SKIP for each case, and a total line. --full runs the whole contract.
"""

import os
import pathlib
import re
import signal
import sys
import time

from suite import Suite, check, new_parser, wait_for

HOSTS = "fabric: default\nhosts: 2\nhcas: 2\n"
ETHERNET = HOSTS + "link_layer: ethernet\n"
# A lost peer is known after 4.096 us * 2^12 * 3.
IMPATIENT = {"SOFTIB_IB_TIMEOUT": "12", "SOFTIB_IB_RETRY_CNT": "3"}
# Of the contract what differs by link layer and rails.
QUICK = "VerbsTransportTest*:RegistrarTest*:Verbs/*threads:-*random*:*killed*"
FULL = False


def tool(fabric, name):
    return str(pathlib.Path(fabric.softib).parent / name)


def contract(fabric, names, **environment):
    status, output = fabric.run("host0", [tool(fabric, "coll_verbs_program"), f"--gtest_filter={names}"],
                                seconds=300, **environment)
    check(status == 0, f"status {status}\n{output[-4000:]}")
    check(re.search(r"\[  PASSED  \] [1-9]", output), output[-2000:])
    return output


class Ranks:
    """A coll_verbs_pair on each host."""

    count = 0

    def __init__(self, fabric, *options, **environment):
        Ranks.count += 1
        id_file = str(pathlib.Path(fabric.folder) / f"id{Ranks.count}")
        words = [tool(fabric, "coll_verbs_pair"), "--id", id_file, *options]
        self.ranks = [fabric.start(f"host{rank}", [*words, "--rank", str(rank)], **environment) for rank in range(2)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.stop()

    def connected(self):
        for rank in self.ranks:
            wait_for(lambda r=rank: "connected" in r.output() or r.poll() is not None, "no connection")
            check("connected" in rank.output(), rank.output())

    def finish(self, rank, status):
        got = self.ranks[rank].wait(60)
        check(got == status, f"rank {rank}: status {got}\n{self.ranks[rank].output()}")
        return self.ranks[rank].output()


# -- cases -------------------------------------------------------------------------------------------------------------


def contract_holds(fabric):
    """With two HCAs as rails."""
    contract(fabric, "*" if FULL else QUICK)


def contract_holds_on_one_rail(fabric):
    contract(fabric, "Verbs/*:Hinted/*" if FULL else "Hinted/*every_size_arrives/*threads:Verbs/*both_ways*threads",
             SOFTIB_IB_HCA="mlx5_1")


def contract_holds_without_on_demand_paging(fabric):
    """As with an HCA that can't: memory that nobody vouches for is held for a run, or copied."""
    contract(fabric, "VerbsTransportTest*:Verbs/*both_ways*threads", SOFTIB_IB_ODP="0")


def contract_holds_without_reading(fabric):
    """Sinks are then written to windows, as where an HCA has no RDMA READ."""
    contract(fabric, "VerbsTransportTest*Combined*:Hinted/*sinks*threads:Hinted/*who_is_done*threads",
             SOFTIB_IB_READ="0")


def ranks_on_two_hosts(fabric):
    with Ranks(fabric, "--messages", "300") as ranks:
        for rank in range(2):
            check("done" in ranks.finish(rank, 0), "not done")


def ranks_that_sleep_are_woken(fabric):
    with Ranks(fabric, "--messages", "300", "--asleep") as ranks:
        for rank in range(2):
            check("done" in ranks.finish(rank, 0), "not done")


def choice_is_told(fabric):
    """As NCCL does, with what is left out and why."""
    ethernet = "Ethernet" in fabric.run("host0", ["ibv_devinfo"])[1]
    layer = "RoCE" if ethernet else "IB"
    with Ranks(fabric, "--messages", "1", SOFTIB_DEBUG="INFO", SOFTIB_DEBUG_SUBSYS="INIT,NET",
               SOFTIB_IB_HCA="=mlx5_1") as ranks:
        output = ranks.finish(0, 0)
    check(re.search(rf"\[0\] SOFTIB INFO NET/IB : Using \[0\]mlx5_1:1/{layer}$", output, re.M), output)
    check("not used: mlx5_0:1: not in SOFTIB_IB_HCA" in output, output)
    check(not ethernet or "GID index 3 (RoCE v2 ::ffff:10." in output, output)


def unusable_devices_are_named_with_reasons(fabric):
    with Ranks(fabric, SOFTIB_IB_HCA="mlx5_7") as ranks:
        for rank in range(2):
            output = ranks.finish(rank, 1)
            check(re.search(r"failed: rank 0 on \S+: no verbs device can be used: mlx5_0:1: not in SOFTIB_IB_HCA; "
                            r"mlx5_1:1: not in SOFTIB_IB_HCA; rank 1 on", output), output)
    for variable, what in ("SOFTIB_IB_PKEY", "P_Key"), ("SOFTIB_IB_GID_INDEX", "GID"):
        with Ranks(fabric, **{variable: "9"}) as ranks:
            output = ranks.finish(0, 1)
            check(f"mlx5_0:1: no {what} at index 9 ({variable})" in output, output)
    done = fabric.call("link", "host0/mlx5_0", "down")
    check(done.returncode == 0, done.stderr)
    try:
        with Ranks(fabric, "--messages", "1", SOFTIB_IB_HCA="mlx5_0") as ranks:
            output = ranks.finish(1, 1)
            check(re.search(r"failed: rank 0 on \S+: no verbs device can be used: mlx5_0:1: the port is down",
                            output), output)
    finally:
        mend(fabric)


def mend(fabric):
    fabric.call("link", "host0/mlx5_0", "reset")
    fabric.call("link", "host1/mlx5_0", "reset")
    wait_for(lambda: fabric.run("host0", ["ibv_devinfo"])[1].count("PORT_ACTIVE") == 2 and
             fabric.run("host1", ["ibv_devinfo"])[1].count("PORT_ACTIVE") == 2, "ports don't come back")


def killed_peer_is_named(fabric):
    """By the HCA, if something was under way to it, else by the meeting of ranks."""
    with Ranks(fabric, "--messages", "100000000", **IMPATIENT) as ranks:
        ranks.connected()
        time.sleep(0.3)
        os.kill(ranks.ranks[1].process.pid, signal.SIGKILL)
        output = ranks.finish(0, 3)
    by_hca = r"on \S+ queue pair from mlx5_\d:1 to mlx5_\d:1: transport retry counter exceeded"
    check(re.search(rf"lost: rank 1 ({by_hca}|ended)", output), output)


def link_that_goes_down_is_told(fabric):
    with Ranks(fabric, "--messages", "100000000", **IMPATIENT) as ranks:
        ranks.connected()
        done = fabric.call("link", "host0/mlx5_0", "down")
        check(done.returncode == 0, done.stderr)
        try:
            outputs = [ranks.finish(rank, 3) for rank in range(2)]
        finally:
            mend(fabric)
    # Whose HCA gives up first ends, and the other one may hear of that before its own HCA gives up.
    by_hca = [bool(re.search(rf"lost: rank {1 - rank} on \S+ queue pair from mlx5_\d:1 to mlx5_\d:1: transport retry "
                             "counter exceeded", outputs[rank])) for rank in range(2)]
    ended = [f"lost: rank {1 - rank} ended" in outputs[rank] for rank in range(2)]
    check(any(by_hca) and all(hca or end for hca, end in zip(by_hca, ended)), "\n".join(outputs))
    if by_hca[0]:
        check("WARN NET/IB : mlx5_0:1: port error" in outputs[0], outputs[0])
        check("mlx5_0:1 here told: port error" in outputs[0], outputs[0])


def limited(fabric, kib, names):
    """The contract under a limit of locked memory; root has a right that lifts it."""
    words = f"ulimit -l {kib} && exec {tool(fabric, 'coll_verbs_program')} --gtest_filter='{names}'"
    rights = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"] if os.geteuid() == 0 else []
    return fabric.run("host0", [*rights, "bash", "-c", words], seconds=120)


def little_locked_memory_will_do(fabric):
    """What can't be registered goes by the bounce buffers, and a warning tells the remedy."""
    status, output = limited(fabric, 4096, "Hinted/*every_size_arrives/*processes:Verbs/*sinks*processes")
    check(status == 0, f"status {status}\n{output[-4000:]}")
    check("messages are copied through bounce buffers" in output, output[-2000:])
    check("ulimit -l" in output and "4096 KiB" in output, output[-2000:])


def no_locked_memory_is_told(fabric):
    status, output = limited(fabric, 64, "Verbs/*no_bytes*processes")
    check(status not in (0, None), output)
    check("the limit of locked memory is 64 KiB" in output, output[-2000:])


BOTH = [contract_holds, ranks_on_two_hosts, choice_is_told]
INFINIBAND = [contract_holds_on_one_rail, contract_holds_without_on_demand_paging,
              contract_holds_without_reading, ranks_that_sleep_are_woken,
              unusable_devices_are_named_with_reasons, killed_peer_is_named, link_that_goes_down_is_told,
              little_locked_memory_will_do, no_locked_memory_is_told]


def main():
    global FULL
    parser = new_parser(__doc__)
    parser.add_argument("--full", action="store_true", help="the whole contract")
    suite = Suite(parser)
    FULL = suite.arguments.full
    suite.on(HOSTS, BOTH + INFINIBAND)
    suite.on(ETHERNET, BOTH)
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
