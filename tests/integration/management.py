#!/usr/bin/env python3
"""The stock tools of infiniband-diags, and opensm, on private fabrics; what they say is compared with the fabric file.

    management.py [--softib PATH] [--filter REGEX]

Prints PASS, FAIL or SKIP for each case, and a total line.
"""

import os
import pathlib
import re
import shutil
import signal
import sys
import time

import fabric_view
from softib_fabric import Fabric, free_port, wait_gone, wait_listening
from suite import Skip, Suite, check, described, new_parser, run, wait_for

TREE = """
fabric: default
hosts: [alpha, beta, gamma]
switches: [{name: leaf0, ports: 8}, {name: leaf1, ports: 8}, {name: spine, ports: 8, enhanced_port0: true}]
cables:
  - [alpha/mlx5_0, leaf0/1]
  - [beta/mlx5_0, leaf0/2]
  - [gamma/mlx5_0, leaf1/1]
  - [leaf0/7, spine/1]
  - [leaf1/7, spine/2]
"""


def node_lids(fabric):
    """LID by node description, as subnet administration has it."""
    records = run(fabric, "alpha", "saquery")
    found = {}
    for record in records.split("NodeRecord dump:")[1:]:
        lid = int(re.search(r"lid\.+(\d+)", record).group(1))
        found[re.search(r"NodeDescription\.+(.+)", record).group(1).strip()] = lid
    return found


# -- cases -------------------------------------------------------------------------------------------------------------


def ports_are_active(fabric):
    for host in ("alpha", "beta", "gamma"):
        text = run(fabric, host, "ibstat")
        check("State: Active" in text and "Physical state: LinkUp" in text and "Rate: 200" in text, text)
        check("4: ACTIVE" in run(fabric, host, "ibstatus"), "ibstatus")


def discovery_finds_every_cable(fabric):
    text = run(fabric, "beta", "ibnetdiscover")
    check(len(re.findall(r"^Switch\t8 ", text, re.M)) == 3 and len(re.findall(r"^Ca\t1 ", text, re.M)) == 3, text)
    for near, far in (('"H-', '"alpha mlx5_0"'), ('"H-', '"beta mlx5_0"'), ('"H-', '"gamma mlx5_0"')):
        check(re.search(rf"^\[\d\]\t{near}.*# {far} lid \d+ 4xHDR", text, re.M), f"{far}:\n{text}")
    check(len(re.findall(r'^\[\d\]\t"S-.*# "(?:leaf0|leaf1|spine)" lid \d+ 4xHDR', text, re.M)) == 4, text)
    check(run(fabric, "beta", "ibhosts").count("Ca\t") == 3, "ibhosts")
    check(run(fabric, "beta", "ibswitches").count("Switch\t") == 3, "ibswitches")
    links = run(fabric, "beta", "iblinkinfo", "-l")
    check(links.count("Active/  LinkUp") == 10, links)


def subnet_management_answers(fabric):
    known = node_lids(fabric)
    for name, lid in known.items():
        check(name in run(fabric, "alpha", "smpquery", "nodedesc", str(lid)), name)
        check("Guid:" in run(fabric, "alpha", "smpquery", "nodeinfo", str(lid)), name)
    leaf = str(known["leaf0"])
    check(re.search(r"LinkState:\.+Active", run(fabric, "alpha", "smpquery", "portinfo", leaf, "1")), "portinfo")
    check("LinearFdbTop" in run(fabric, "alpha", "smpquery", "switchinfo", leaf), "switchinfo")
    check("0xffff" in run(fabric, "alpha", "smpquery", "pkeys", str(known["alpha mlx5_0"])), "pkeys")
    for table in ("sl2vl", "vlarb", "guidinfo"):
        run(fabric, "alpha", "smpquery", table, str(known["alpha mlx5_0"]))
    run(fabric, "alpha", "smpquery", "mepi", leaf, "1")
    check("SMINFO_MASTER" in run(fabric, "gamma", "sminfo"), "sminfo")


def routes_lead_through_the_spine(fabric):
    known = node_lids(fabric)
    text = run(fabric, "alpha", "ibtracert", str(known["alpha mlx5_0"]), str(known["gamma mlx5_0"]))
    way = re.findall(r'^(?:From|\[\d+\] ->).*lid \d+-\d+ "(.*?)"', text, re.M)
    check(way == ["alpha mlx5_0", "leaf0", "spine", "leaf1", "gamma mlx5_0"], text)
    table = run(fabric, "alpha", "ibroute", str(known["spine"]))
    check(re.search(rf"0x{known['gamma mlx5_0']:04x} 002 : .*gamma", table), table)
    check("leaf0" in run(fabric, "alpha", "dump_lfts") and "leaf1" in run(fabric, "alpha", "dump_mfts"), "dump_lfts")


def a_managed_switch_is_an_end_port(fabric):
    """Enhanced port 0 has port states like an HCA's port; ibtracert goes only over what is ACTIVE."""
    known = node_lids(fabric)
    spine = str(known["spine"])
    check(re.search(r"LinkState:\.+Active", run(fabric, "alpha", "smpquery", "portinfo", spine, "0")), "port 0")
    check("[0x0000000000000000]" not in run(fabric, "alpha", "smpquery", "pkeys", spine, "0"), "P_Keys of port 0")
    text = run(fabric, "alpha", "ibtracert", str(known["gamma mlx5_0"]), spine)
    check(re.search(r'\[0\]\{?.*"spine"|To switch .*"spine"', text), text)


def administration_answers(fabric):
    paths = run(fabric, "alpha", "saquery", "-p")
    check(paths.count("PathRecord dump:") == 36, f"{paths.count('PathRecord dump:')} paths of 6 x 6")
    for records in ("PortInfoRecord", "SwitchInfoRecord", "LinkRecord", "SMInfoRecord", "LFTRecord", "PKeyTableRecord",
                    "VLArbitrationTableRecord", "SL2VLTableRecord", "GUIDInfoRecord", "ServiceRecord",
                    "InformInfoRecord", "MCMemberRecord", "ClassPortInfo"):
        run(fabric, "alpha", "saquery", "--smkey", "1", records)
    check("ff12:401b:ffff::ffff:ffff" in run(fabric, "alpha", "saquery", "-g"), "broadcast group")


SERVICES = pathlib.Path(__file__).with_name("service_records.py")


def port_guid(fabric, host):
    return re.search(r"Port GUID: (\w+)", run(fabric, host, "ibstat")).group(1)


def services_are_shown(fabric):
    run(fabric, "gamma", sys.executable, str(SERVICES), "--register", port_guid(fabric, "gamma"), "a.service")
    text = run(fabric, "alpha", "saquery", "-S")
    check(text.count("ServiceRecord dump:") == 1 and re.search(r"ServiceName\.+a\.service\b", text), text)


def ping_goes_and_comes(fabric):
    known = node_lids(fabric)
    server = fabric.start("gamma", ["ibping", "-S"])
    try:
        time.sleep(0.3)
        text = run(fabric, "alpha", "ibping", "-c", "5", str(known["gamma mlx5_0"]))
        check(text.count("Pong from") == 5, text)
    finally:
        server.stop()


def data_counters(fabric, lid, port):
    text = run(fabric, "beta", "perfquery", "-x", str(lid), str(port))
    return {name: int(re.search(rf"{name}:\.+(\d+)", text).group(1))
            for name in ("PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts")}


def counters_are_exact(fabric):
    """Of 1000 writes of 4096 bytes; the tool's own MADs pass other ports than those that are looked at."""
    known = node_lids(fabric)
    places = [(known["leaf1"], 1), (known["spine"], 2)]
    before = [data_counters(fabric, *place) for place in places]
    idle = [data_counters(fabric, *place) for place in places]
    port = free_port()
    command = ["ib_write_bw", "-d", "mlx5_0", "-F", "-p", str(port), "-s", "4096", "-n", "1000"]
    server = fabric.start("gamma", command)
    try:
        check(wait_listening(server, port), "the server didn't listen")
        run(fabric, "alpha", *command, "127.0.0.1")
    finally:
        server.stop()
    after = [data_counters(fabric, *place) for place in places]
    words = 1000 * (4096 + 24 + 16) // 4  # payload; LRH, BTH, ICRC; RETH
    # gamma's leaf port sends the writes on and hears the acknowledgements; MADs never pass there.
    leaf = {key: after[0][key] - before[0][key] for key in before[0]}
    check(idle[0] == before[0], f"traffic without a program: {before[0]} {idle[0]}")
    check(leaf["PortXmitPkts"] == 1000 and leaf["PortXmitData"] == words, f"{leaf}, expected 1000 and {words}")
    check(leaf["PortRcvPkts"] == 1000 and leaf["PortRcvData"] == 1000 * 7, f"acknowledgements: {leaf}")
    spine = {key: after[1][key] - before[1][key] for key in before[1]}
    check(spine["PortXmitPkts"] >= 1000 and spine["PortXmitData"] >= words, f"spine: {spine}")


def a_disabled_port_goes_down_and_comes_back(fabric):
    known = node_lids(fabric)
    leaf = str(known["leaf0"])
    run(fabric, "alpha", "ibportstate", leaf, "2", "disable")
    wait_for(lambda: "State: Down" in fabric.run("beta", ["ibstat"])[1], "beta's port is still up")
    wait_for(lambda: node_lids(fabric).keys() == known.keys() - {"beta mlx5_0"}, "the manager still has beta")
    run(fabric, "alpha", "ibportstate", leaf, "2", "enable")
    wait_for(lambda: "State: Active" in fabric.run("beta", ["ibstat"])[1], "beta's port stays down")
    check(node_lids(fabric) == known, "LIDs have changed")


MEMBERS = "{fabric: default, hosts: [beta, {name: alpha, hcas: [{pkeys: [0x7fff]}]}]}"
CONF = """
fabric: default
sm: KIND
hosts: [beta, alpha]
partitions: |
  Default=0x7fff, ipoib : ALL=limited, ALL_SWITCHES=full, SELF=full, BETA=full ;
"""


def limited_member_is_answered(fabric):
    """By the subnet administration, a switch's agents and a full member's program; alpha is the limited one."""
    check("0x7fff" in run(fabric, "alpha", "smpquery", "-D", "pkeys", "0"), "alpha is no limited member")
    managers = run(fabric, "alpha", "saquery", "-s")
    check(managers.count("PortInfoRecord dump") == 1, f"one port has a subnet manager:\n{managers}")
    leaf = re.search(r'"sw0" base port 0 lid (\d+)', run(fabric, "alpha", "ibswitches")).group(1)
    check("PortXmitData" in run(fabric, "alpha", "perfquery", leaf, "1"), "perfquery")
    lid = re.search(r"Base lid: (\d+)", run(fabric, "beta", "ibstat")).group(1)
    server = fabric.start("beta", ["ibping", "-S"])
    try:
        wait_for(lambda: fabric.run("alpha", ["ibping", "-c", "1", "-t", "200", lid])[0] == 0, "ibping")
    finally:
        server.stop()


def limited_members_are_answered(softib):
    with described(softib, MEMBERS) as fabric:
        limited_member_is_answered(fabric)
        guid = port_guid(fabric, "beta")
    with described(softib, CONF.replace("KIND", "builtin").replace("BETA", guid)) as fabric:
        limited_member_is_answered(fabric)


def services_are_answered(softib, kind):
    with described(softib, f"{{fabric: default, sm: {kind}, hosts: [beta, alpha]}}") as fabric:
        own, other = port_guid(fabric, "alpha"), port_guid(fabric, "beta")
        text = run(fabric, "alpha", sys.executable, str(SERVICES), own, other)
        return text.replace(own, "OWN").replace(other, "OTHER")


def services_are_answered_as_by_opensm(softib):
    """All requests of a row: who may register what, what is found by what, what is shown to whom."""
    if not shutil.which("opensm"):
        raise Skip("opensm is not installed")
    ours, theirs = services_are_answered(softib, "builtin"), services_are_answered(softib, "opensm")
    check(len(ours.splitlines()) > 20 and ours == theirs, f"built-in:\n{ours}opensm:\n{theirs}")


def opensm_lets_switches_enforce_partitions(softib):
    """Each of their ports gets the table of what is behind it."""
    if not shutil.which("opensm"):
        raise Skip("opensm is not installed")
    with described(softib, CONF.replace("KIND", "opensm").replace("BETA=full", "NONE")) as fabric:
        limited_member_is_answered(fabric)


def opensm_brings_it_up(softib):
    if not shutil.which("opensm"):
        raise Skip("opensm is not installed")
    with described(softib, TREE + "sm: none\n") as fabric:
        check("State: Initializing" in run(fabric, "alpha", "ibstat"), "a port is up without a subnet manager")
        log = pathlib.Path(fabric.folder) / "opensm.log"
        run(fabric, "alpha", "opensm", "-o", "-f", str(log))
        check("SUBNET UP" in log.read_text(errors="replace"), log.read_text(errors="replace")[-2000:])
        for host in ("alpha", "beta", "gamma"):
            check("State: Active" in run(fabric, host, "ibstat"), host)


# -- aggregation nodes: what is seen of them, and the life of the program on them, whatever program that is

REDUCING = TREE.replace("fabric: default", "fabric: default\naggregation: true")
NODE = "Mellanox Technologies Aggregation Node"
SWITCHES = ("leaf0", "leaf1", "spine")


class Reducing(Fabric):
    """With a program on the nodes that opens an HCA and waits for events, as any program of verbs might."""

    def __init__(self, softib, text=REDUCING):
        super().__init__(softib)
        folder = pathlib.Path(self.folder)
        program = folder / "program"
        program.write_text("#!/bin/sh\necho \"$@\"\necho >&3\nexec 3>&-\nexec ibv_asyncwatch -d leaf0-an\n")
        program.chmod(0o755)
        self.environment["SOFTIB_AGGREGATION"] = str(program)
        self.description = str(folder / "fabric.yaml")
        (folder / "fabric.yaml").write_text(text)

    def program(self):
        program, = self.status()["aggregation"]
        return program

    def wait_until_open(self):
        """Its process, once it has opened its HCA."""
        def found():
            program = self.program()
            return program["running"] and any(process["pid"] == program["pid"] and process["objects"]["context"] == 1
                                              for process in self.status()["processes"])
        wait_for(found, "the program on the nodes has no HCA open")
        return self.program()["pid"]


def each_switch_has_a_node(fabric):
    net = fabric_view.Discovered(run(fabric, "alpha", "ibnetdiscover"))
    check(not net.differences(fabric_view.of_file(fabric.softib, fabric.description)), "ibnetdiscover")
    text = run(fabric, "alpha", "ibnetdiscover")
    check(len(re.findall(rf'^\[9\]\t"H-\w+"\[1\]\(\w+\) \t\t# "{NODE}" lid \d+ 4xHDR', text, re.M)) == 3, text)
    check(run(fabric, "alpha", "ibhosts").count(NODE) == 3, "ibhosts")
    check(run(fabric, "alpha", "saquery").count(NODE) == 3, "saquery")


def nodes_are_no_hosts(fabric):
    for words in (["hostfile"], ["run", "all", "--", "hostname"]):
        output = fabric.call(*words).stdout
        check("aggregation" not in output and "gamma" in output, f"softib {words[0]}: {output}")
    for words in (["run", "aggregation", "--", "true"], ["env", "aggregation"]):
        refused = fabric.call(*words)
        check(refused.returncode != 0 and "nobody runs programs on it" in refused.stderr, f"{words}: {refused}")
    unknown = fabric.call("run", "delta", "--", "true").stderr
    check("its hosts are alpha, beta, gamma" in unknown, unknown)


def nobody_else_opens_nodes(fabric):
    fabric.wait_until_open()
    intruder = fabric.start("alpha", ["env", "SOFTIB_HOST=aggregation", "ibv_devinfo"])
    check(intruder.wait(10) != 0 and "leaf0-an" not in intruder.output(), intruder.output())
    intruder.stop()


def the_program_of_nodes_lives_and_dies(fabric):
    first = fabric.wait_until_open()
    log = pathlib.Path(fabric.program()["log"])
    check(log.read_text().startswith("--manager --ready-fd 3\n"), f"the first one manages: {log.read_text()}")
    line = rf"softib-aggregation, process {first} +aggregation +3 of 3 +running"
    check(re.search(line, fabric.call("status").stdout), "status")
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: fabric.program()["state"] == "ended with signal 9 (Killed)", "softibd does not see it die")
    check("restart" in fabric.daemon_log(), "the log tells no remedy")
    ping_goes_and_comes(fabric)
    check(fabric.call("aggregation", "restart").returncode == 0, "restart")
    wait_for(lambda: fabric.program()["ready"], "it is not ready")
    second = fabric.wait_until_open()
    check(fabric.call("aggregation", "restart").returncode == 0, "restart of one that runs")
    third = fabric.wait_until_open()
    check(len({first, second, third}) == 3 and wait_gone(second, 5), "it is another process each time")
    check("killed" in fabric.call("host", "aggregation", "kill").stdout and wait_gone(third, 5), "with its host")
    wait_for(lambda: NODE not in run(fabric, "alpha", "ibhosts"), "the nodes of a dead host answer")
    for words in (["host", "aggregation", "on"], ["aggregation", "restart"]):
        check(fabric.call(*words).returncode == 0, " ".join(words))
    fabric.wait_until_open()
    wait_for(lambda: run(fabric, "alpha", "ibhosts").count(NODE) == 3, "the nodes don't come back")
    check(fabric.call("aggregation", "kill").returncode == 0 and not fabric.program()["running"], "kill")
    fabric.call("aggregation", "restart")


def nodes_end_with_the_fabric(softib):
    for text, how in ((REDUCING, signal.SIGTERM), (REDUCING + "sm: opensm\n", signal.SIGKILL)):
        if "opensm" in text and not shutil.which("opensm"):
            raise Skip("opensm is not installed")
        with Reducing(softib, text) as fabric:
            program, daemon = fabric.wait_until_open(), fabric.daemon_pid()
            check(run(fabric, "gamma", "saquery").count(NODE) == 3, "nodes with the stock subnet manager")
            if how == signal.SIGTERM:
                done = fabric.call("down")
                check(done.stdout == "fabric 'default' is down\n", f"nobody uses it any more: {done.stdout}")
            else:
                os.kill(daemon, how)
            check(wait_gone(program, 10), f"the program outlives softibd, that ended by signal {how}")


def nodes_without_their_program(softib):
    fabric = Reducing(softib, "{aggregation: true, hosts: 2}")
    fabric.environment["SOFTIB_AGGREGATION"] = "/nowhere"
    with fabric:
        check(fabric.program()["state"].startswith("not started: "), fabric.program())
        check(NODE in run(fabric, "host0", "ibhosts"), "ibhosts")
        with described(softib, "hosts: 2") as plain:
            check("asks for no aggregation nodes" in plain.call("aggregation", "restart").stderr, "without any")


ON_NODES = (each_switch_has_a_node, nodes_are_no_hosts, nobody_else_opens_nodes, the_program_of_nodes_lives_and_dies)


SHARED = (ports_are_active, discovery_finds_every_cable, subnet_management_answers, routes_lead_through_the_spine,
          a_managed_switch_is_an_end_port, administration_answers, services_are_shown, ping_goes_and_comes,
          counters_are_exact, a_disabled_port_goes_down_and_comes_back)
OWN = (limited_members_are_answered, services_are_answered_as_by_opensm, opensm_lets_switches_enforce_partitions,
       opensm_brings_it_up, nodes_end_with_the_fabric, nodes_without_their_program)


def main():
    suite = Suite(new_parser(__doc__))
    suite.on(TREE, SHARED)
    if cases := suite.chosen(ON_NODES):
        with Reducing(suite.arguments.softib) as fabric:
            suite.run_each(cases, fabric)
    suite.alone(OWN)
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
