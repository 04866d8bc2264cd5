#!/usr/bin/env python3
"""In-network reduction on a fabric of two tiers: aggregation nodes on all switches, results, what each link carries,
and failures.

    innetwork.py [--softib PATH] [--filter REGEX] [--full]

Prints PASS, FAIL or SKIP for each case, and a total line. --full tries all types and operators.
"""

import os
import pathlib
import re
import signal
import sys
import time

from softib_fabric import Talking, free_port
from suite import Suite, check, new_parser, run, wait_for

HERE = pathlib.Path(__file__).resolve().parent
LEAVES, EACH, SPINES = 4, 4, 2
HOSTS = [f"host{i}" for i in range(LEAVES * EACH)]
SWITCHES = [f"leaf{i}" for i in range(LEAVES)] + [f"spine{i}" for i in range(SPINES)]
UPLINK = 20  # leaf's port to spine 0
SL = 3       # of the ranks' traffic alone
# A peer that is gone is known after 4.096 us * 2^12 * 3.
IMPATIENT = {"SOFTIB_IB_TIMEOUT": "12", "SOFTIB_IB_RETRY_CNT": "3"}
FULL = False


def description():
    """Aggregation nodes are HCAs of an ordinary host, an, one on each switch."""
    nodes = ", ".join(f"{{name: {name}-an, description: Mellanox Technologies Aggregation Node}}" for name in SWITCHES)
    lines = ["fabric: default", "hosts:", f"  - {{name: host, count: {len(HOSTS)}}}",
             f"  - {{name: an, hcas: [{nodes}]}}", "switches:"]
    lines += [f"  - {{name: {name}, ports: 40}}" for name in SWITCHES]
    lines.append("cables:")
    for leaf in range(LEAVES):
        lines += [f"  - [host{leaf * EACH + i}/mlx5_0/1, leaf{leaf}/{i + 1}]" for i in range(EACH)]
        lines += [f"  - [leaf{leaf}/{UPLINK + spine}, spine{spine}/{leaf + 1}]" for spine in range(SPINES)]
    lines += [f"  - [an/{name}-an/1, {name}/40]" for name in SWITCHES]
    return "\n".join(lines) + "\n"


def tool(fabric, name):
    return str(pathlib.Path(fabric.softib).parent / name)


class Aggregation:
    """softib-aggregation on the nodes' host, with the manager. Silent nodes aren't probed while links are measured."""

    def __init__(self, fabric, *options):
        self.program = fabric.start("an", [tool(fabric, "softib-aggregation"), "--manager", *options])

    def __enter__(self):
        wait_for(lambda: "ready:" in self.output() or self.program.poll() is not None, "no nodes")
        check("ready: 6 nodes" in self.output(), self.output())
        return self

    def __exit__(self, *_):
        self.program.stop()

    def output(self):
        return self.program.output()


class Ranks:
    """A rank on each host that talks."""

    def __init__(self, fabric, hosts, **environment):
        library = str(pathlib.Path(fabric.softib).parents[1] / "lib" / "libsoftib_coll.so")
        everything = dict(fabric.environment, SOFTIB_COMM_ID=f"127.0.0.1:{free_port()}", SOFTIB_IB_SL=str(SL),
                          **environment)
        words = [sys.executable, str(HERE / "innetwork_rank.py"), library, str(len(hosts))]
        self.ranks = [Talking(fabric.command("run", host, "--", *words, str(rank)), everything, fabric.folder)
                      for rank, host in enumerate(hosts)]

    def __enter__(self):
        answers = [rank.process.stdout.readline().strip() for rank in self.ranks]
        check(all(answer == "ready" for answer in answers), "\n".join(answers))
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.stop()

    def tell(self, line):
        for rank in self.ranks:
            if rank.process.poll() is None:
                rank.process.stdin.write(line + "\n")
                rank.process.stdin.flush()

    def answers(self):
        return [rank.process.stdout.readline().strip() for rank in self.ranks]

    def ask(self, line):
        self.tell(line)
        return self.answers()


def perf(fabric, program, hosts, *words, **environment):
    status, output = fabric.run(hosts[0], [tool(fabric, program), "--hosts", ",".join(hosts), "-w", "0", "-n", "1",
                                           *words], seconds=240, SOFTIB_ALGO="innetwork", **environment)
    check(status == 0, f"status {status}\n{output[-4000:]}")
    check("Out of bounds values : 0 OK" in output, output[-2000:])
    check("can't be had" not in output, output)
    return output


def node_lids(fabric):
    records = run(fabric, "host0", "saquery")
    return {re.search(r"NodeDescription\.+(.+)", record).group(1).strip():
            int(re.search(r"lid\.+(\d+)", record).group(1)) for record in records.split("NodeRecord dump:")[1:]}


def words_at(fabric, lids, places, option, field):
    """Words on the ranks' service level at each (switch, port)."""
    counts = {}
    for name, port in places:
        text = run(fabric, "host0", "perfquery", option, str(lids[name]), str(port))
        counts[name, port] = int(re.search(rf"^{field}{SL}:\.+(\d+)$", text, re.M).group(1))
    return counts


def words_sent(fabric, lids, places):
    return words_at(fabric, lids, places, "-X", "XmtDataSL")


def words_received(fabric, lids, places):
    return words_at(fabric, lids, places, "-S", "RcvDataSL")


def cost_of_vector(size, segment=16320, header=64, mtu=4096):
    """Words that a vector takes one way, and its acknowledgements the other: IBTA's headers around each packet."""
    words = answers = 0
    while size > 0:
        message = min(size, segment) + header
        packets = -(-message // mtu)
        words += message // 4 + packets * (2 + 3 + 1)
        answers += 2 + 3 + 1 + 1
        size -= segment
    return words, answers


def traffic_of(fabric, ranks, size, places):
    lids = node_lids(fabric)
    before = words_sent(fabric, lids, places), words_received(fabric, lids, places)
    answers = ranks.ask(f"sum {size // 4}")
    check(answers == ["right"] * len(answers), "\n".join(answers))
    after = words_sent(fabric, lids, places), words_received(fabric, lids, places)
    return tuple({place: after[way][place] - before[way][place] for place in places} for way in (0, 1))


# -- cases -------------------------------------------------------------------------------------------------------------


def sums_are_right(fabric):
    """16 ranks on 16 hosts; the other collectives that know the way on some of them."""
    with Aggregation(fabric):
        output = perf(fabric, "all_reduce_perf", HOSTS, "-b", "4", "-e", "1M", "-f", "64", SOFTIB_DEBUG="INFO")
        tree = "spine0 <- leaf0, leaf1, leaf2, leaf3; leaf3 <- 4 hosts; leaf2 <- 4 hosts; leaf1 <- 4 hosts; leaf0 <- 4"
        check(f"of 16 hosts, tree {tree}" in output, output[:4000])
        some = HOSTS[::5]
        if FULL:
            perf(fabric, "all_reduce_perf", some, "-b", "4", "-e", "256K", "-f", "16", "-d", "all", "-o", "all")
        perf(fabric, "all_reduce_perf", some, "-b", "20K", "-e", "20K", "-d", "half", "-o", "all")
        output = perf(fabric, "all_gather_perf", some, "-b", "4K", "-e", "64K", "-f", "4", SOFTIB_DEBUG="INFO")
        told = re.findall(r"SOFTIB INFO SOFTIB_ALGO: all_gather isn't done by (\w+), so \w+ does it", output)
        check(told == ["innetwork"], f"{told}\n{output[-3000:]}")
        perf(fabric, "reduce_perf", some, "-b", "4", "-e", "64K", "-f", "128", "-r", "-1")
        perf(fabric, "broadcast_perf", some, "-b", "4", "-e", "64K", "-f", "128", "-r", "-1")


def ranks_of_a_host_go_together(fabric):
    """Two on each of three hosts; and the plan that is told says so."""
    with Aggregation(fabric):
        for program in ("all_reduce_perf", "reduce_perf", "broadcast_perf"):
            output = perf(fabric, program, ["host0", "host0", "host5", "host5", "host10", "host10"], "-b", "4", "-e",
                          "64K", "-f", "128", *([] if program == "all_reduce_perf" else ["-r", "-1"]),
                          SOFTIB_DEBUG="INFO", SOFTIB_DEBUG_SUBSYS="INIT,TUNING")
            check("job" in output and "of 3 hosts" in output, output[:4000])
            check(re.search(r"bytes: innetwork, 1 lane \(SOFTIB_ALGO\)", output), output[:4000])


def ranks_that_sleep_are_woken(fabric):
    """All but one wait long for it, many times."""
    with Aggregation(fabric), Ranks(fabric, HOSTS[:8:2], SOFTIB_ALGO="innetwork", SOFTIB_TIMEOUT="20") as ranks:
        for late in range(12):
            for number, rank in enumerate(ranks.ranks):
                if number == late % 4:
                    time.sleep(0.05)
                rank.process.stdin.write(f"sum {1 + late * 5000}\n")
                rank.process.stdin.flush()
            answers = ranks.answers()
            check(answers == ["right"] * 4, "\n".join(answers))
        ranks.ask("ends")


def each_link_carries_the_data_once(fabric):
    """Up and down, exactly; where the tree isn't, nothing. A ring carries more."""
    size = 1 << 20
    links = [(f"leaf{leaf}", port) for leaf in range(LEAVES) for port in (*range(1, EACH + 1), UPLINK, UPLINK + 1)]
    with Aggregation(fabric, "--keep-alive", "3600000"), Ranks(fabric, HOSTS, SOFTIB_ALGO="innetwork") as ranks:
        out, back = traffic_of(fabric, ranks, size, links)
        ranks.ask("ends")
    words = sum(cost_of_vector(size))  # data one way, acknowledgements of the other way's
    for name, port in links:
        expected = 0 if port == UPLINK + 1 else words
        check(out[name, port] == expected, f"{name}/{port} sent {out[name, port]} words, not {expected}")
        check(back[name, port] == expected, f"{name}/{port} received {back[name, port]} words, not {expected}")
    with Ranks(fabric, HOSTS, SOFTIB_ALGO="ring") as ranks:
        ring, _ = traffic_of(fabric, ranks, size, links)
        ranks.ask("ends")
    uplinks = sum(ring[name, port] for name, port in links if port >= UPLINK)
    hosts = [ring[name, port] for name, port in links if port <= EACH]
    print(f"    1 MiB by 16 ranks, words: in the network {words} each way on each link of the tree, "
          f"{LEAVES * words} on all uplinks; by ring {min(hosts)} to {max(hosts)} to a host, {uplinks} on all uplinks")
    check(min(hosts) > 1.8 * words, f"the ring is too cheap: {min(hosts)}")


def calls_go_on_after_a_rank_dies(fabric):
    """All others' calls return and name it; nothing of the job stays; the next job works."""
    with Aggregation(fabric) as aggregation:
        with Ranks(fabric, HOSTS[:8], SOFTIB_ALGO="innetwork", **IMPATIENT) as ranks:
            check(ranks.ask("sum 100000") == ["right"] * 8, "wrong sums")
            victim = ranks.ranks[5]
            os.kill(victim.process.pid, signal.SIGSTOP)
            ranks.tell("sum 1000000")
            time.sleep(0.2)
            os.kill(victim.process.pid, signal.SIGKILL)
            answers = [rank.process.stdout.readline() for rank in ranks.ranks if rank is not victim]
            for answer in answers:
                check(re.search(r"error rank 5 on host5 \(process \d+\) has ended", answer), answer)
        wait_for(lambda: re.search(r"job \S+ (ends|is over)", aggregation.output()), aggregation.output())
        with Ranks(fabric, HOSTS[:8], SOFTIB_ALGO="innetwork") as ranks:
            check(ranks.ask("sum 1000") == ["right"] * 8, "wrong sums")
            ranks.ask("ends")


def a_dead_node_is_named(fabric):
    """All calls return; a new program on the nodes takes new jobs."""
    with Aggregation(fabric) as aggregation:
        with Ranks(fabric, HOSTS[:8], SOFTIB_ALGO="innetwork", **IMPATIENT) as ranks:
            check(ranks.ask("sum 1000") == ["right"] * 8, "wrong sums")
            os.kill(aggregation.program.process.pid, signal.SIGKILL)
            aggregation.program.wait(5)
            for answer in ranks.ask("sum 1000"):
                check(re.search(r"error .*in-network reduction failed: aggregation node leaf[01]-an:1: "
                                r"transport retry counter exceeded", answer), answer)
    with Aggregation(fabric), Ranks(fabric, HOSTS[:8], SOFTIB_ALGO="innetwork") as ranks:
        check(ranks.ask("sum 1000") == ["right"] * 8, "wrong sums")
        ranks.ask("ends")


def without_nodes_a_warning_tells_why(fabric):
    """And the ordinary algorithms do it."""
    words = [tool(fabric, "all_reduce_perf"), "--hosts", "host0,host5", "-w", "0", "-n", "1", "-b", "8", "-e", "8"]
    status, output = fabric.run("host0", words, SOFTIB_ALGO="innetwork")
    check(status == 0 and "Out of bounds values : 0 OK" in output, output)
    check("SOFTIB WARN SOFTIB_ALGO or SOFTIB_COLLNET_ENABLE asks for in-network reduction, which can't be had, so "
          "other algorithms are used: no aggregation manager is registered with the subnet manager; softib-aggregation "
          "runs one" in output, output)
    check(output.count("can't be had") == 1, output)


def a_host_says_hello(fabric):
    """The check tool, with nodes and without."""
    status, output = fabric.run("host6", [tool(fabric, "sharp_hello")])
    check(status == 1 and "sharp_hello: no aggregation manager is registered" in output, output)
    with Aggregation(fabric):
        status, output = fabric.run("host6", [tool(fabric, "sharp_hello"), "-d", "mlx5_0:1", "-i", "3"])
    check(status == 0 and output.endswith("Test Passed.\n"), output)
    check(re.search(r"aggregation manager at LID \d+: 6 nodes, 0 jobs", output), output)
    check(re.search(r"tree leaf1 <- 1 host\n  to aggregation node leaf1-an:1 at LID \d+", output), output)


def a_fabric_file_asks_for_nodes(fabric):
    """softibd starts the program, and again when it is told to."""
    def hello():
        return fabric.run("host1", [tool(fabric, "sharp_hello"), "-i", "1"])

    check(hello()[0] == 0, "no hello after up")
    perf(fabric, "all_reduce_perf", ["host0", "host1", "host2"], "-b", "4", "-e", "64K", "-f", "64")
    check(fabric.call("aggregation", "kill").returncode == 0, "kill")
    wait_for(lambda: not fabric.status()["aggregation"][0]["running"], "it goes on")
    status, output = hello()
    check(status == 1 and "doesn't answer; has its program ended?" in output, output)
    # Each trial has a communicator of its own; one asks for the manager that is dead.
    words = ["--hosts", "host0,host1", "-b", "64", "-e", "64", "--seconds", "0.1", "--collectives", "all_reduce"]
    status, output = fabric.run("host0", [tool(fabric, "softib_coll_tune"), *words], 60, SOFTIB_COLLNET_ENABLE="1")
    check(status == 0 and output.count("can't be had") == 1 and "innetwork" not in output, output)
    for _ in range(4):
        check(fabric.call("aggregation", "restart").returncode == 0, "restart")
        status, output = hello()
        check(status == 0, output)


def nodes_known(fabric, host):
    """Names of the nodes that the manager knows; empty while there is none."""
    status, output = fabric.run(host, [tool(fabric, "sharp_hello"), "-i", "1"])
    return re.findall(r"^  aggregation node (\S+):1 \(LID", output, re.M) if status == 0 else []


def one_node_is_taken_out(fabric):
    """Its trees end, others are made without it, and it comes back; whether or not the manager is there."""
    everything = nodes_known(fabric, "host0")
    count = len(everything)
    check("leaf0-an" in everything and "leaf1-an" in everything, str(everything))
    here, there = ["host0", "host1"], ["host0", "host4"]
    sizes = ["-b", "4", "-e", "64K", "-f", "64"]
    with Ranks(fabric, there, SOFTIB_ALGO="innetwork", **IMPATIENT) as ranks:
        check(ranks.ask("sum 1000") == ["right"] * 2, "wrong sums")
        check(fabric.call("hca", "aggregation/leaf1-an", "remove").returncode == 0, "remove")
        for answer in ranks.ask("sum 1000"):
            check("error" in answer and "in-network reduction failed" in answer, answer)
    check(f"{count - 1} of {count}" in fabric.call("status").stdout, fabric.call("status").stdout)
    others = [name for name in everything if name != "leaf1-an"]
    wait_for(lambda: nodes_known(fabric, "host0") == others, "it stays", 60)
    perf(fabric, "all_reduce_perf", here, *sizes)
    words = [tool(fabric, "all_reduce_perf"), "--hosts", ",".join(there), "-n", "1", *sizes]
    status, output = fabric.run("host0", words, SOFTIB_ALGO="innetwork")
    check(status == 0 and re.search(r"can't be had.*switch leaf1, .* has no aggregation node", output), output)
    check(fabric.call("hca", "aggregation/leaf1-an", "add").returncode == 0, "add")
    wait_for(lambda: sorted(nodes_known(fabric, "host0")) == sorted(everything), "it doesn't come back", 60)
    perf(fabric, "all_reduce_perf", there, *sizes)
    check(f"{count} of {count}" in fabric.call("status").stdout, fabric.call("status").stdout)
    # With the manager.
    check(fabric.call("hca", "aggregation/leaf0-an", "remove").returncode == 0, "remove")
    wait_for(lambda: "leaf0-an" not in nodes_known(fabric, "host4") != [], "no other port takes the manager over", 60)
    check(fabric.call("hca", "aggregation/leaf0-an", "add").returncode == 0, "add")
    wait_for(lambda: sorted(nodes_known(fabric, "host4")) == sorted(everything), "it doesn't come back", 60)
    perf(fabric, "all_reduce_perf", there, *sizes)
    check(fabric.call("aggregation", "kill").returncode == 0, "kill")
    wait_for(lambda: "; softib aggregation restart" in fabric.call("status").stdout, "status names no remedy")
    check(f"0 of {count}" in fabric.call("status").stdout, fabric.call("status").stdout)


class Part:
    """A process with some of the nodes."""

    def __init__(self, fabric, names, *options):
        self.program = fabric.start("an", [tool(fabric, "softib-aggregation"), *options,
                                           *[word for name in names for word in ("--device", f"{name}-an")]])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.stop()

    def die(self):
        os.kill(self.program.process.pid, signal.SIGKILL)
        self.program.wait(5)


def nodes_in_several_processes(fabric):
    """Trees go over both; the one without the manager finds it, and the next one after it."""
    first, second = ["leaf0", "spine0", "spine1"], ["leaf1", "leaf2", "leaf3"]
    known = lambda: sorted(name.removesuffix("-an") for name in nodes_known(fabric, "host0"))
    some = HOSTS[::5]
    with Part(fabric, second) as part:
        with Part(fabric, first, "--manager") as manager:
            wait_for(lambda: known() == sorted(first + second), "not all nodes come", 60)
            wait_for(lambda: "ready: 3 nodes" in part.program.output(), part.program.output())
            perf(fabric, "all_reduce_perf", some, "-b", "4", "-e", "256K", "-f", "256")
            part.die()
            wait_for(lambda: known() == sorted(first), "dead nodes stay", 60)
            with Part(fabric, second):
                wait_for(lambda: known() == sorted(first + second), "nodes don't come back", 60)
                perf(fabric, "all_reduce_perf", some, "-b", "4", "-e", "64K", "-f", "256")
                manager.die()
                with Part(fabric, first, "--manager"):
                    wait_for(lambda: known() == sorted(first + second), "nodes don't find the new manager", 60)
                    perf(fabric, "all_reduce_perf", some, "-b", "4", "-e", "64K", "-f", "256")


CASES = [without_nodes_a_warning_tells_why, sums_are_right, ranks_of_a_host_go_together, ranks_that_sleep_are_woken,
         each_link_carries_the_data_once,
         calls_go_on_after_a_rank_dies, a_dead_node_is_named,
         a_host_says_hello, nodes_in_several_processes]


def main():
    global FULL
    parser = new_parser(__doc__)
    parser.add_argument("--full", action="store_true", help="all types and operators")
    suite = Suite(parser)
    FULL = suite.arguments.full
    suite.on(description(), CASES)
    suite.on("{aggregation: true, hosts: 3}\n", [a_fabric_file_asks_for_nodes])
    suite.on("{aggregation: true, topology: {kind: fat-tree, hosts: 8, radix: 8}}\n", [one_node_is_taken_out])
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
