#!/usr/bin/env python3
"""The stock opensm as subnet manager (`sm: opensm`): routing engines on each topology, and fail-over.

    opensm.py [--softib PATH] [--filter REGEX] [--full]

A subset of topologies and routing engines, or with --full all of them. For each: every port ACTIVE, what ibnetdiscover
finds is what the fabric file says, every pair of end ports reaches each other by the forwarding tables that dump_lfts
shows, and messages pass between hosts on the service level that subnet administration names.

Prints PASS, FAIL or SKIP for each case, and a total line.
"""

import os
import pathlib
import re
import shutil
import signal
import sys

import fabric_view
from management import TREE
from softib_fabric import free_port, wait_gone, wait_listening
from suite import Skip, Suite, check, described, new_parser, run, wait_for

# -- topologies --------------------------------------------------------------------------------------------------------


class Grid:
    """Switches in a plane, a host on each; closed to a torus or open. GUIDs tell the place: 0x100XY."""

    def __init__(self, wide, high, closed):
        self.wide, self.high, self.closed = wide, high, closed

    @staticmethod
    def guid(x, y):
        return 0x10000 + 16 * x + y

    def text(self):
        used = {}

        def end(x, y):
            used[x, y] = used.get((x, y), 0) + 1
            return f"s{x}-{y}/{used[x, y]}"

        places = [(x, y) for x in range(self.wide) for y in range(self.high)]
        cables = [f"[h{x}-{y}/mlx5_0, {end(x, y)}]" for x, y in places]
        for x, y in places:
            for far_x, far_y in ((x + 1, y), (x, y + 1)):
                inside = far_x < self.wide and far_y < self.high
                if inside or self.closed:
                    cables.append(f"[{end(x, y)}, {end(far_x % self.wide, far_y % self.high)}]")
        switches = [f"{{name: s{x}-{y}, ports: 5, node_guid: {self.guid(x, y):#x}}}" for x, y in places]
        return (f"hosts: [{', '.join(f'h{x}-{y}' for x, y in places)}]\nswitches: [{', '.join(switches)}]\n"
                f"cables: [{', '.join(cables)}]\n")

    def torus_conf(self):
        """The seed: the first switch with its links in each dimension, of a torus in both directions."""
        seed = [("xp", 1, 0), ("yp", 0, 1)] + ([("xm", -1, 0), ("ym", 0, -1)] if self.closed else [])
        links = [f"{name}_link {self.guid(0, 0):#x} {self.guid(far_x % self.wide, far_y % self.high):#x}"
                 for name, far_x, far_y in seed]
        return f"{'torus' if self.closed else 'mesh'} {self.wide} {self.high} 1\n" + "\n".join(links) + "\n"


def ring(count):
    hosts = [f"h{i}-{j}" for i in range(count) for j in range(2)]
    cables = [f"[h{i}-{j}/mlx5_0, s{i}/{j + 1}]" for i in range(count) for j in range(2)]
    cables += [f"[s{i}/3, s{(i + 1) % count}/4]" for i in range(count)]
    switches = [f"{{name: s{i}, ports: 4, node_guid: {Grid.guid(0, i):#x}}}" for i in range(count)]
    return f"hosts: [{', '.join(hosts)}]\nswitches: [{', '.join(switches)}]\ncables: [{', '.join(cables)}]\n"


TORUS = Grid(4, 5, True)
MESH = Grid(4, 3, False)
TOPOLOGIES = {
    "fat tree of 2 tiers": "topology: {kind: fat-tree, hosts: 16, radix: 8}\n",
    "fat tree of 3 tiers": "topology: {kind: fat-tree, hosts: 32, radix: 8, tiers: 3}\n",
    "superpod hdr": "topology: {kind: superpod, generation: hdr, units: 1}\n",
    "superpod h100": "topology: {kind: superpod, generation: h100, units: 1}\n",
    "dragonfly": "topology: {kind: dragonfly, groups: 5, routers: 4, hosts: 2}\n",
    "ring": ring(6),
    "torus": TORUS.text(),
    "mesh": MESH.text(),
}
TREES = ("fat tree of 2 tiers", "fat tree of 3 tiers", "superpod hdr", "superpod h100")
LOOPS = ("dragonfly", "ring", "torus", "mesh")
NEED_LEVELS = ("ring", "torus")  # with shortest paths, one level would have loops of waiting packets
# Up/down and fat-tree routing leave roots without ways between each other unless asked (-z); on a network without roots
# up/down needs to be told one.
RUNS = [(topology, engine) for topology in TREES for engine in ("minhop", "updn", "ftree", "dor", "lash", "dfsssp")]
RUNS += [(topology, engine) for topology in LOOPS for engine in ("minhop", "updn", "dor", "lash", "dfsssp")]
RUNS += [("torus", "torus-2QoS"), ("mesh", "torus-2QoS")]
QUICK = [("fat tree of 2 tiers", "minhop"), ("fat tree of 3 tiers", "ftree"), ("superpod hdr", "updn"),
         ("dragonfly", "dfsssp"), ("ring", "updn"), ("torus", "lash"), ("mesh", "dor"), ("torus", "torus-2QoS")]


def write_beside(folder, name, text):
    (pathlib.Path(folder) / name).write_text(text)
    return name


def engine_arguments(fabric, topology, engine):
    if engine in ("updn", "ftree") and topology in TREES:
        return ["-z"]
    folder = fabric.folder
    if engine == "updn":
        root = fabric_view.of_file(fabric.softib, fabric.description).switches()[0].guid
        return ["-a", write_beside(folder, "roots", f"{root:#x}\n")]
    if engine == "torus-2QoS":
        grid = TORUS if topology == "torus" else MESH
        return ["-Q", "--torus_config", write_beside(folder, "torus-2QoS.conf", grid.torus_conf())]
    return []


# -- checks ------------------------------------------------------------------------------------------------------------


def need(*programs):
    for program in programs:
        if not shutil.which(program) and not os.access(f"/usr/sbin/{program}", os.X_OK):
            raise Skip(f"{program} is not installed")


def managers(fabric):
    return fabric.status()["subnet_managers"]


def log_of(fabric, index=0):
    return pathlib.Path(managers(fabric)[index]["log"]).read_text(errors="replace")


def discover(fabric, host):
    net = fabric_view.Discovered(run(fabric, host, "ibnetdiscover"))
    differences = net.differences(fabric_view.of_file(fabric.softib, fabric.description))
    check(not differences, "ibnetdiscover and the fabric file: " + "; ".join(differences[:5]))
    return net


def all_is_active(fabric, host, net):
    links = run(fabric, host, "iblinkinfo", "-l")
    active = links.count("Active/  LinkUp")
    check(active == 2 * len(net.cables()), f"{active} lines of iblinkinfo, {len(net.cables())} cables:\n{links[:2000]}")
    check("Init" not in links and "Armed" not in links, links)


def all_pairs_reach_each_other(fabric, host, net):
    tables = fabric_view.read_tables(run(fabric, host, "dump_lfts"))
    check(len(tables) == len(net.switches()), f"dump_lfts shows {len(tables)} switches of {len(net.switches())}")
    faults = fabric_view.unreachable(net, tables)
    check(not faults, f"{len(faults)} pairs without a way: " + "; ".join(faults[:5]))


def service_levels(fabric, host):
    """Of all paths, by (source LID, target LID)."""
    records = run(fabric, host, "saquery", "-p").split("PathRecord dump:")[1:]
    levels = {}
    for record in records:
        source, target = (int(re.search(rf"{end}\.+(\d+)", record).group(1)) for end in ("slid", "dlid"))
        levels[source, target] = int(re.search(r"\tsl\.+0x([0-9a-fA-F]+)", record).group(1), 16)
    return levels


def host_of(node):
    return node.name.split()[0]


def message_passes(fabric, one, two, level):
    port = str(free_port())
    words = ["ibv_rc_pingpong", "-d", one.name.split()[1], "-p", port, "-n", "50", "-l", str(level)]
    server = fabric.start(host_of(two), words)
    try:
        check(wait_listening(server, int(port)), f"the server did not listen: {server.output()}")
        run(fabric, host_of(one), *words, "localhost")
    finally:
        server.stop()


def messages_pass(fabric, host, net, topology, engine):
    """Between the first and the last HCA, and on the path with the highest service level."""
    levels = service_levels(fabric, host)
    check(len(levels) == len(net.end_ports()) ** 2, f"{len(levels)} paths of {len(net.end_ports())} squared")
    adapters = {node.lids[1]: node for node in net.adapters()}
    pairs = [pair for pair in levels if pair[0] in adapters and pair[1] in adapters and pair[0] != pair[1]]
    highest = max(pairs, key=lambda pair: levels[pair])
    if topology in NEED_LEVELS and engine in ("lash", "dfsssp", "torus-2QoS"):
        check(levels[highest] > 0, f"{engine} uses one service level only")
    for source, target in {(min(adapters), max(adapters)), highest}:
        message_passes(fabric, adapters[source], adapters[target], levels[source, target])


def routed(softib, topology, engine):
    need("opensm", "ibnetdiscover", "ibv_rc_pingpong")
    with_engine = described(softib, TOPOLOGIES[topology])
    arguments = engine_arguments(with_engine, topology, engine)
    pathlib.Path(with_engine.description).write_text(
        TOPOLOGIES[topology] + f"sm: {{kind: opensm, routing: [{engine}, no_fallback], args: {arguments}}}\n")
    with with_engine as fabric:
        host = fabric.status()["hosts"][0]["name"]
        net = discover(fabric, host)
        all_is_active(fabric, host, net)
        check(f"{engine} tables configured on all switches" in log_of(fabric), log_of(fabric)[-3000:])
        check(" ERR " not in log_of(fabric), "\n".join(re.findall(r".* ERR .*", log_of(fabric))))
        all_pairs_reach_each_other(fabric, host, net)
        messages_pass(fabric, host, net, topology, engine)


# -- fail-over ---------------------------------------------------------------------------------------------------------

# opensm polls its master every 10 s and four times before it gives up; here it is in a hurry.
IMPATIENT = "sminfo_polling_timeout 300\npolling_retry_number 2\nforce_log_flush TRUE\n"
LAB = TREE.replace("fabric: default\n", "")


def lab(softib, text):
    fabric = described(softib, LAB + text)
    write_beside(fabric.folder, "impatient.conf", IMPATIENT)
    return fabric


def port_guid(fabric, host):
    return int(run(fabric, host, "ibstat", "-p").split()[0], 16)


def master(fabric, host):
    """GUID of the manager that a host's port names as its master, or None."""
    status, text = fabric.run(host, ["sminfo"])
    found = re.search(r"sm guid 0x([0-9a-f]+),.*SMINFO_MASTER", text)
    return int(found.group(1), 16) if status == 0 and found else None


class Stream:
    """Traffic between two hosts for some seconds, which nothing may interrupt."""

    def __init__(self, fabric, source, target, seconds):
        port = str(free_port())
        words = ["ib_write_bw", "-d", "mlx5_0", "-F", "-D", str(seconds), "-p", port]
        self.server = fabric.start(target, words)
        check(wait_listening(self.server, int(port)), f"no server: {self.server.output()}")
        self.client = fabric.start(source, [*words, "127.0.0.1"])

    def finish(self):
        try:
            check(self.client.wait(60) == 0, f"traffic broke off:\n{self.client.output()}")
        finally:
            self.client.stop()
            self.server.stop()


def everything_still_works(fabric, before):
    """As before the fail-over: the same nodes, LIDs and cables, every port ACTIVE, all pairs reachable."""
    net = discover(fabric, "beta")
    check(net.end_ports() == before.end_ports(), f"LIDs have changed: {before.end_ports()} {net.end_ports()}")
    all_is_active(fabric, "beta", net)
    all_pairs_reach_each_other(fabric, "beta", net)
    wait_for(lambda: fabric.run("beta", ["saquery", "-p"])[1].count("PathRecord dump:") == len(net.end_ports()) ** 2,
             "no answers from subnet administration")


def standby_opensm_takes_over(softib):
    need("opensm", "sminfo", "ib_write_bw")
    text = "sm: {kind: opensm, ports: [alpha/mlx5_0, gamma/mlx5_0], args: [-F, impatient.conf]}\n"
    with lab(softib, text) as fabric:
        first, second = (port_guid(fabric, host) for host in ("alpha", "gamma"))
        wait_for(lambda: "Entering STANDBY" in log_of(fabric, 1), "the second opensm is no standby")
        check(master(fabric, "beta") == first, "for equal priorities the lower GUID leads")
        before = discover(fabric, "beta")
        stream = Stream(fabric, "alpha", "beta", 4)
        os.kill(managers(fabric)[0]["pid"], signal.SIGKILL)
        wait_for(lambda: master(fabric, "beta") == second, "the standby did not take over", 30)
        stream.finish()
        check(managers(fabric)[0]["state"] == "ended with signal 9 (Killed)", str(managers(fabric)))
        check(managers(fabric)[1]["state"] == "running", str(managers(fabric)))
        wait_for(lambda: "SUBNET UP" in log_of(fabric, 1), "no sweep of the new master")
        everything_still_works(fabric, before)


def higher_priority_leads(softib):
    need("opensm", "sminfo")
    text = "sm: {kind: opensm, ports: [alpha/mlx5_0], args: [-F, impatient.conf]}\n"
    with lab(softib, text) as fabric:
        before = discover(fabric, "beta")
        check(master(fabric, "beta") == port_guid(fabric, "alpha"), "alpha's opensm is alone")
        log = write_beside(fabric.folder, "second.log", "")
        second = fabric.start("gamma", ["opensm", "-p", "9", "-F", "impatient.conf", "-f", log],
                              OSM_CACHE_DIR=fabric.folder, OSM_TMP_DIR=fabric.folder)
        try:
            guid = port_guid(fabric, "gamma")
            wait_for(lambda: master(fabric, "beta") == guid, "the better one did not become master", 30)
            wait_for(lambda: "Entering STANDBY" in log_of(fabric), "alpha's opensm did not step down")
            everything_still_works(fabric, before)
        finally:
            second.stop()


def state_of_builtin(fabric):
    return managers(fabric)[0]["state"]


def opensm_and_the_builtin_take_turns(softib):
    need("opensm", "sminfo", "ib_write_bw")
    with lab(softib, "sm: {kind: builtin, priority: 2, sweep_interval: 1}\n") as fabric:
        before = discover(fabric, "beta")
        builtin = master(fabric, "beta")
        check(builtin is not None and state_of_builtin(fabric) == "MASTER", str(managers(fabric)))
        for how in (signal.SIGKILL, signal.SIGTERM):
            opensm = fabric.start("alpha", ["opensm", "-p", "7", "-F", "impatient.conf", "-f", f"{how}.log"],
                                  OSM_CACHE_DIR=fabric.folder, OSM_TMP_DIR=fabric.folder)
            try:
                stream = Stream(fabric, "gamma", "beta", 5)
                guid = port_guid(fabric, "alpha")
                wait_for(lambda: master(fabric, "beta") == guid, "opensm with more priority did not become master", 30)
                wait_for(lambda: state_of_builtin(fabric) == "STANDBY", "the built-in one did not step down")
                everything_still_works(fabric, before)
                opensm.process.send_signal(how)
                wait_for(lambda: master(fabric, "beta") == builtin, f"after {how.name} nobody leads", 60)
                stream.finish()
                check(state_of_builtin(fabric) == "MASTER", str(managers(fabric)))
                everything_still_works(fabric, before)
            finally:
                opensm.stop()


def opensm_stands_by_the_builtin(softib):
    need("opensm", "sminfo")
    with lab(softib, "sm: {kind: builtin, priority: 5}\n") as fabric:
        builtin = master(fabric, "beta")
        log = pathlib.Path(fabric.folder) / "standby.log"
        opensm = fabric.start("alpha", ["opensm", "-p", "3", "-F", "impatient.conf", "-f", str(log)],
                              OSM_CACHE_DIR=fabric.folder, OSM_TMP_DIR=fabric.folder)
        try:
            wait_for(lambda: log.exists() and "Entering STANDBY" in log.read_text(errors="replace"), "no standby")
            check(master(fabric, "beta") == builtin and state_of_builtin(fabric) == "MASTER", str(managers(fabric)))
            wait_for(lambda: fabric.run("beta", ["saquery", "SMIR"])[1].count("SMInfoRecord dump:") == 2,
                     "the built-in one does not know of the other", 20)
        finally:
            opensm.stop()


# -- sm: opensm itself -------------------------------------------------------------------------------------------------


def it_lives_and_dies_with_the_fabric(softib):
    need("opensm")
    with lab(softib, "sm: opensm\npartitions: 'Default=0x7fff,ipoib: ALL=full; lab=0x10: ALL=limited;'\n") as fabric:
        one, = managers(fabric)
        check(one["place"] == "alpha/mlx5_0/1" and one["subnet_up"], str(one))
        check("0x0010" in run(fabric, "gamma", "smpquery", "-D", "pkeys", "0"), "the fabric file's partitions")
        words = pathlib.Path(f"/proc/{one['pid']}/environ").read_bytes()
        check(b"SOFTIB_HOST=alpha" in words, "environment")
        os.kill(fabric.daemon_pid(), signal.SIGKILL)
        wait_for(lambda: wait_gone(one["pid"], 0.1), "opensm outlived softibd")
    with lab(softib, "sm: opensm\n") as fabric:
        pid = managers(fabric)[0]["pid"]
        check(fabric.call("down").stdout.strip() == "fabric 'default' is down", "opensm counted as a user")
        check(wait_gone(pid, 1), "opensm outlived softib down")


def what_goes_wrong_is_told(softib):
    need("opensm")
    fabric = lab(softib, "")
    try:
        for text, words in (("sm: {kind: opensm, args: [--nonsense]}\n", "unrecognized option '--nonsense'"),
                            ("sm: opensm\npartitions: 'lab=zz: ALL;'\n", "bad P_Key 'zz'")):
            pathlib.Path(fabric.description).write_text(LAB + text)
            done = fabric.call("up", fabric.description)
            check(done.returncode == 1 and words in done.stderr, done.stderr)
            check(fabric.call("status").returncode == 1, "it runs all the same")
        pathlib.Path(fabric.description).write_text(LAB + "sm: opensm\n")
        lacking = dict(fabric.environment, PATH="/nowhere")
        if not any(os.access(f"{folder}/opensm", os.X_OK) for folder in ("/usr/local/sbin", "/usr/sbin", "/sbin")):
            fabric.environment = lacking
            check("apt-get install opensm" in fabric.call("up", fabric.description).stderr, "the remedy")
    finally:
        fabric.down()


# -- osmtest -----------------------------------------------------------------------------------------------------------

FLOWS = (["c"], ["v"], ["s"], ["e"], ["m"], ["m", "-M2"], ["q"], ["a"])


def osmtest_passes(softib, kind):
    """Its inventory, then each flow. Errors that it provokes are in its log; what counts is its verdict."""
    need("osmtest")
    with lab(softib, f"sm: {kind}\n") as fabric:
        for flow, *more in FLOWS:
            status, text = fabric.run("beta", ["osmtest", "-f", flow, *more, "-i", "inventory"], seconds=120)
            passed = status == 0 and re.search('TEST ".*" PASS', text)
            check(passed, f"osmtest -f {flow} {more}: {status}\n{text[-3000:]}")


def osmtest_passes_with_opensm(softib):
    osmtest_passes(softib, "opensm")


def osmtest_passes_with_the_builtin(softib):
    osmtest_passes(softib, "builtin")


OWN = (it_lives_and_dies_with_the_fabric, what_goes_wrong_is_told, standby_opensm_takes_over, higher_priority_leads,
       opensm_stands_by_the_builtin, opensm_and_the_builtin_take_turns, osmtest_passes_with_the_builtin,
       osmtest_passes_with_opensm)


def by_engine(topology, engine):
    case = lambda softib: routed(softib, topology, engine)
    case.__name__ = f"{topology} by {engine}"
    return case


def main():
    parser = new_parser(__doc__)
    parser.add_argument("--full", action="store_true", help="all topologies with all routing engines")
    suite = Suite(parser)
    suite.alone([by_engine(*what) for what in (RUNS if suite.arguments.full else QUICK)])
    suite.alone(OWN)
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
