#!/usr/bin/env python3
"""Fault drills: each fault, made by `softib`, and found by the unmodified tool that an engineer would use.

    drills.py [--softib PATH] [--filter REGEX] [--write]

Each drill has a fabric of its own: two leaves, two spines, four hosts. Prints PASS, FAIL or SKIP for each, and a total
line. What the tools show must be the table of docs/fault-drills.md; --write writes it.
"""

import pathlib
import re
import shutil
import sys
import time

from softib_fabric import ROOT, Fabric, FabricError, free_port, wait_listening
from suite import Skip, Suite, check, new_parser

PAGE = ROOT / "docs" / "fault-drills.md"
BEGIN, END = "<!-- drills.py writes from here -->", "<!-- to here -->"
PATIENCE = 30  # seconds until what doesn't come is missing

# LIDs and GUIDs follow from the description, so they are the same each time.
TREE = ["topo", "generate", "fat-tree", "--hosts", "4", "--radix", "6", "--oversubscription", "1:2"]
LEAF0 = "0x525400fffe800000"
LID = {"leaf0": "1", "leaf1": "2", "spine0": "3", "spine1": "4", "host0": "5", "host1": "6", "host2": "7", "host3": "8"}


class Lab:
    """A fabric to break, and the rows of the table that come of it."""

    def __init__(self, fabric):
        self.fabric = fabric
        self.commands = []
        self.rows = []
        self.watching = []

    def do(self, line):
        done = self.fabric.call(*line.split())
        check(done.returncode == 0, f"softib {line}: {done.stdout}{done.stderr}")
        self.commands.append(f"softib {line}")

    def run(self, host, line):
        argv = line.split()
        if not shutil.which(argv[0]):
            raise Skip(f"{argv[0]} is not installed")
        return self.fabric.run(host, argv, seconds=60)

    def start(self, host, line):
        argv = line.split()
        if not shutil.which(argv[0]):
            raise Skip(f"{argv[0]} is not installed")
        program = self.fabric.start(host, ["stdbuf", "-oL", *argv])
        self.watching.append(program)
        return program

    def stop(self):
        for program in self.watching:
            program.stop()

    def see(self, host, line, pattern):
        """Asks until a line of the output fits. Groups of the pattern are numbers that vary."""
        end = time.monotonic() + PATIENCE
        while True:
            output = self.run(host, line)[1]
            found = re.search(pattern, output, re.M)
            if found:
                self.note(host, line, found)
                return found
            check(time.monotonic() < end, f"{line} on {host} does not show '{pattern}':\n{output}")
            time.sleep(0.2)

    def see_in(self, host, program, pattern):
        """The same in what a running program has said until then."""
        end = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, program.output(), re.M)):
            check(time.monotonic() < end, f"{program.argv} does not show '{pattern}':\n{program.output()}")
            time.sleep(0.05)
        self.note(host, " ".join(program.argv[program.argv.index("-oL") + 1:]), found)

    def see_between(self, client, server, line, pattern):
        """The same in what the client of a pair of programs says at its end."""
        port = free_port()
        command = [*line.split(), "-p", str(port)]
        if not shutil.which(command[0]):
            raise Skip(f"{command[0]} is not installed")
        other = self.fabric.start(server, command)
        self.watching.append(other)
        check(wait_listening(other, port), other.output())
        status, output = self.fabric.run(client, [*command, "localhost"], seconds=PATIENCE)
        found = re.search(pattern, output, re.M)
        check(status == 0 and found, f"{line}: status {status}\n{output}\n{other.output()}")
        self.note(f"{server}, {client}", f"{line} [localhost]", found)
        return found

    def note(self, host, line, found):
        shown, at = "", found.start()
        for group in range(1, (found.re.groups or 0) + 1):
            shown += found.string[at:found.start(group)] + "N"
            at = found.end(group)
        shown += found.string[at:found.end()]
        self.rows.append((f"{host}: {line}", " ".join(shown.split())))

    def wait(self, host, line, pattern):
        """As see(), but nothing for the table."""
        self.see(host, line, pattern)
        self.rows.pop()


# -- drills: the first line of the docstring is the fault --------------------------------------------------------------


def a_cable_is_pulled(lab):
    """a cable is pulled out"""
    lab.run("host0", "ibnetdiscover --cache good.cache")
    watch = lab.start("host1", "ibv_asyncwatch")
    lab.wait("host0", "sminfo", "SMINFO_MASTER")
    wait_for_slot(lab, 1)
    lab.do("link leaf0:2 down")
    lab.see("host0", f"iblinkinfo -S {LEAF0}", r"^ +1 +2\[ .*Down/ Polling.*$")
    lab.see("host0", "ibnetdiscover --diff good.cache", r'^< \[2\]\t.*"host1 mlx5_0".*$')
    lab.see("host0", "ibqueryerrors", rf"GUID {LEAF0} port 2: \[LinkDownedCounter == 1 .*$")
    lab.see("host1", "ibstat", r"State: Down$")
    lab.see("host1", "ibstatus", r"state:\s+1: DOWN$")
    lab.see_in("host1", watch, r"event_type IBV_EVENT_PORT_ERR .*$")


def a_cable_is_plugged_in_again(lab):
    """a pulled cable is plugged in again"""
    watch = lab.start("host1", "ibv_asyncwatch")
    wait_for_slot(lab, 1)
    lab.do("link leaf0:2 down")
    lab.do("link leaf0:2 up")
    lab.see_in("host1", watch, r"event_type IBV_EVENT_PORT_ACTIVE .*$")
    lab.see("host1", "ibstat", r"State: Active$")


def a_link_flaps(lab):
    """a link flaps"""
    lab.do("link leaf0:2 flap --times 5 --every 100ms")
    lab.see("host0", f"perfquery {LID['leaf0']} 2", r"^LinkDownedCounter:\.+5$")
    lab.see("host1", "ibstat", r"State: Active$")
    lab.wait("host0", f"perfquery {LID['leaf0']} 2", r"^LinkDownedCounter:\.+5$")
    lab.see("host0", "ibqueryerrors", rf"GUID {LEAF0} port 2: \[LinkDownedCounter == 5 .*$")


def an_uplink_is_pulled(lab):
    """the cable that traffic takes is pulled out"""
    way = lab.run("host0", f"ibtracert {LID['host0']} {LID['host2']}")[1]
    port = re.search(r'^\[(\d)\] -> switch port .*"spine', way, re.M)
    check(port, way)
    lab.do(f"link leaf0:{port.group(1)} down")
    lab.see("host0", f"ibtracert {LID['host0']} {LID['host2']}",
            rf'^\[(?!{port.group(1)})\d\] -> switch port .*"spine.*$')


def a_link_is_narrow(lab):
    """three of four lanes are dead"""
    lab.do("link leaf0:3 width 1x")
    lab.see("host0", f"smpquery portinfo {LID['leaf0']} 3", r"^LinkWidthActive:\.+1X$")
    lab.see("host0", "iblinkinfo -l", rf'^{LEAF0} +" +leaf0" .*1X .*Active.*\(Could be 4X *\)$')
    lab.see("host0", f"ibportstate {LID['leaf0']} 3 query", r"Peer ports operating at active width .*$")


def a_link_is_slow(lab):
    """a link trains to a lower speed"""
    lab.do("link leaf0:3 speed SDR")
    lab.see("host0", f"smpquery portinfo {LID['leaf0']} 3", r"^LinkSpeedActive:\.+2\.5 Gbps$")
    lab.see("host0", "iblinkinfo -l", rf'^{LEAF0} +" +leaf0" .*2\.5 Gbps .*Active.*\( Could be .*\)$')
    lab.see("host0", f"ibportstate {LID['leaf0']} 3 query", r"^LinkSpeedActive:\.+2\.5 Gbps$")


def a_host_link_is_slow(lab):
    """a host's link trains to a lower speed and width"""
    lab.do("link host1/mlx5_0 speed EDR")
    lab.do("link host1/mlx5_0 width 2x")
    lab.see("host1", "ibstatus", r"rate:\s+50 Gb/sec \(2X EDR\)$")
    lab.see("host1", "ibstat", r"Rate: 50$")


def bits_flip(lab):
    """bits flip on a cable"""
    lab.do("link leaf0:4 ber 1e-9")
    lab.see("host0", "ibqueryerrors", rf"GUID {LEAF0} port 4: \[SymbolErrorCounter == (\d+) \((\d+)\.000\)\]$")
    lab.see("host0", f"perfquery {LID['spine0']} 2", r"^SymbolErrorCounter:\.+([1-9]\d*)$")


def a_cable_is_bad(lab):
    """a cable is so bad that the link recovers again and again"""
    lab.do("link leaf0:4 ber 2e-4")
    lab.see("host0", f"perfquery {LID['leaf0']} 4", r"^LinkErrorRecoveryCounter:\.+([1-9]\d*)$")


def packets_get_lost(lab):
    """packets get lost on a cable"""
    lab.do("link leaf0:2 drop 30%")
    lab.run("host0", f"ibping -c 20 -f -t 20 {LID['host1']}")
    lab.see("host0", f"perfquery {LID['leaf0']} 2", r"^PortRcvErrors:\.+([1-9]\d*)$")


def packets_take_longer(lab):
    """packets take longer on a cable"""
    lab.do("link leaf0:2 delay 1ms")
    took = lab.see_between("host0", "host1", "ibv_rc_pingpong -n 100",
                           r"^100 iters in ([\d.]+) seconds = ([\d.]+) usec/iter$")
    check(float(took.group(2)) >= 2000, f"{took.group(2)} us there and back")


def management_takes_longer_too(lab):
    """... those of management too"""
    lab.do("link leaf0:2 delay 5ms")
    lab.start("host1", "ibping -S")
    wait_for_slot(lab, 1)
    took = lab.see("host0", f"ibping -c 3 {LID['host1']}", r"^rtt min/avg/max = ([\d.]+)/([\d.]+)/([\d.]+) ms$")
    # 5 ms each way; infiniband-diags 44 divides nanoseconds by 10,000, and so shows a tenth.
    check(float(took.group(1)) >= 1, took.group(0))


def a_slow_link_limits_traffic(lab):
    """a link trains to a lower speed, on a fabric with `pace: true`"""
    lab.do("link leaf0:2 speed SDR")
    lab.wait("host1", "ibstat", r"State: Active$")
    rate = lab.see_between("host0", "host1", "ib_write_bw -s 65536 -n 1000 --report_gbits",
                           r"^ *65536\s+1000\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)")
    check(1 < float(rate.group(2)) <= 8, f"{rate.group(2)} Gb/s over 4X SDR")
    waits = r"^PortXmitWait:\.+(\d+)$"
    check(int(lab.see("host0", "perfquery 5 1", waits).group(1)) > 0, "the sender's port doesn't wait")
    check(int(lab.see("host0", "perfquery 1 2", waits).group(1)) == 0, "the port into the slow link waits")


def cables_change_places(lab):
    """two cables are plugged in the wrong way round"""
    lab.run("host0", "ibnetdiscover --cache good.cache")
    lab.do("link swap leaf0:2 leaf1:2")
    lab.see("host0", f"iblinkinfo -S {LEAF0}", r'^ +1 +2\[ .*Active/ +LinkUp.*"host3 mlx5_0".*$')
    lab.see("host0", "ibnetdiscover --diff good.cache", r'^> \[2\]\t.*"host3 mlx5_0".*$')


def a_switch_loses_its_power(lab):
    """a switch loses its power"""
    lab.run("host0", "ibnetdiscover --cache good.cache")
    lab.do("switch spine1 off")
    lab.see("host0", "ibnetdiscover --diff good.cache", r'^< Switch\t6 .*"spine1".*$')
    lab.see("host0", f"iblinkinfo -S {LEAF0} -d", r"^ +1 +5\[ .*Down/ Polling.*$")


def a_switch_comes_back(lab):
    """... and gets it back"""
    lab.do("switch spine1 off")
    lab.wait("host0", "ibswitches", r'\A(?!(.|\n)*spine1)')
    lab.do("switch spine1 on")
    lab.see("host0", "ibswitches", r'^Switch\t: 0x\w+ ports 6 "spine1" .* lid 4 .*$')
    lab.see("host0", f"perfquery {LID['leaf0']} 5", r"^LinkDownedCounter:\.+1$")


def a_host_dies(lab):
    """a host dies"""
    lab.run("host0", "ibnetdiscover --cache good.cache")
    server = lab.start("host1", "ibping -S")
    wait_for_slot(lab, 1)
    lab.do("host host1 kill")
    check(server.wait(PATIENCE) == -9, f"ibping on host1 lives, or ended with {server.poll()}")
    lab.see("host0", "ibnetdiscover --diff good.cache", r'^< Ca\t1 .*"host1 mlx5_0".*$')
    lab.see("host0", f"ibping -c 1 -t 100 {LID['host1']}",
            r"^1 packets transmitted, 0 received, 100% packet loss, time (\d+) ms$")


def a_host_boots(lab):
    """a host boots"""
    lab.do("host host1 reboot --after 200ms")
    lab.see("host0", f"perfquery {LID['leaf0']} 2", r"^LinkDownedCounter:\.+1$")
    lab.see("host1", "ibstat", r"State: Active$")
    lab.see("host0", f"perfquery {LID['host1']} 1", r"^LinkDownedCounter:\.+0$")


def an_hca_is_pulled_out(lab):
    """an HCA is pulled out of its host"""
    watch = lab.start("host1", "ibv_asyncwatch")
    wait_for_slot(lab, 1)
    lab.do("hca host1/mlx5_0 remove")
    lab.see_in("host1", watch, r"event_type IBV_EVENT_DEVICE_FATAL .*$")
    lab.see("host1", "ibv_devinfo", r"^No IB devices found$")
    lab.see("host0", f"iblinkinfo -S {LEAF0}", r"^ +1 +2\[ .*Down/ Polling.*$")


def an_hca_is_plugged_in_again(lab):
    """... and plugged in again"""
    lab.do("hca host1/mlx5_0 remove")
    lab.wait("host0", f"iblinkinfo -S {LEAF0}", r"^ +1 +2\[ .*Down/ Polling.*$")
    lab.do("hca host1/mlx5_0 add")
    lab.see("host1", "ibstat", r"State: Active$")
    lab.see("host0", f"perfquery {LID['host1']} 1", r"^LinkDownedCounter:\.+0$")


def counters_stand_still(lab):
    """a port's counters stand still"""
    lab.run("host0", f"smpquery nodeinfo {LID['host1']}")
    lab.do("counters leaf0:2 stuck")
    before = lab.see("host0", f"perfquery -x {LID['leaf0']} 2", r"^PortXmitPkts:\.+(\d+)$").group(1)
    for _ in range(3):
        lab.run("host0", f"smpquery nodeinfo {LID['host1']}")
    after = lab.see("host0", f"perfquery -x {LID['leaf0']} 2", r"^PortXmitPkts:\.+(\d+)$").group(1)
    check(before == after, f"they moved from {before} to {after}")
    lab.rows.pop()
    received = lab.see("host0", f"perfquery -x {LID['host1']} 1", r"^PortRcvPkts:\.+(\d+)$").group(1)
    check(int(received) > int(before), f"nothing went there: {received}")


def errors_are_counted(lab):
    """a counter of errors jumps"""
    lab.do("counters leaf0:1 add symbol_error 100")
    lab.see("host0", "ibqueryerrors", rf"GUID {LEAF0} port 1: \[SymbolErrorCounter == 100 .*$")


def the_manager_dies(lab):
    """the subnet manager dies"""
    lab.do("sm kill")
    lab.see("host0", "sminfo", r"^sminfo: iberror: failed: query$")
    lab.see("host0", "saquery -s", r"^Query SA failed: Connection timed out$")
    lab.do("link leaf0:2 down")
    lab.do("link leaf0:2 up")
    lab.see("host1", "ibstat", r"State: Initializing$")


def the_manager_comes_back(lab):
    """... and comes back"""
    lab.do("sm kill")
    lab.do("link leaf0:2 down")
    lab.do("link leaf0:2 up")
    lab.wait("host1", "ibstat", r"State: Initializing$")
    lab.do("sm restart")
    lab.see("host1", "ibstat", r"State: Active$")
    lab.see("host0", "sminfo", r"^sminfo: sm lid 1 .*activity count (\d+) .*SMINFO_MASTER$")


def wait_for_slot(lab, programs):
    """Until that many programs have opened a device."""
    end = time.monotonic() + PATIENCE
    while len(lab.fabric.status()["processes"]) < programs:
        check(time.monotonic() < end, "a program does not open its device")
        time.sleep(0.05)


DRILLS = (a_cable_is_pulled, a_cable_is_plugged_in_again, a_link_flaps, an_uplink_is_pulled, a_link_is_narrow,
          a_link_is_slow, a_host_link_is_slow, bits_flip, a_cable_is_bad, packets_get_lost, packets_take_longer,
          management_takes_longer_too, a_slow_link_limits_traffic, cables_change_places, a_switch_loses_its_power,
          a_switch_comes_back, a_host_dies, a_host_boots, an_hca_is_pulled_out, an_hca_is_plugged_in_again,
          counters_stand_still, errors_are_counted, the_manager_dies, the_manager_comes_back)

ALSO_IN_THE_FILE = {a_slow_link_limits_traffic: "pace: true\n"}


# -- the table ---------------------------------------------------------------------------------------------------------


def code(text):
    return "`" + text.replace("|", "\\|") + "`"


def table_rows(drill, lab):
    """The fault and its commands stand in the first of its rows."""
    first = (drill.__doc__, "<br>".join(code(command) for command in lab.commands))
    lines = []
    for number, (tool, shown) in enumerate(lab.rows):
        host, line = tool.split(": ", 1)
        fault, commands = first if number == 0 else ("", "")
        lines.append(f"| {fault} | {commands} | {host} | {code(line)} | {code(shown)} |")
    return lines


def table(rows):
    return "\n".join(["| fault | made by | on | found by | the line that shows it |", "|---|---|---|---|---|", *rows])


def page_parts():
    text = PAGE.read_text()
    before, rest = text.split(BEGIN + "\n", 1)
    inside, after = rest.split(END, 1)
    return before + BEGIN + "\n", inside, END + after


def drilled(drill, rows):
    """The drill as a case; its rows for the table go to `rows`."""
    def case(softib):
        with TreeFabric(softib, ALSO_IN_THE_FILE.get(drill, "")) as fabric:
            lab = Lab(fabric)
            try:
                drill(lab)
            finally:
                lab.stop()
        rows[drill] = table_rows(drill, lab)
    case.__name__ = drill.__name__
    return case


def compare(rows, totals):
    before, inside, after = page_parts()
    missing = [row for row in rows if row not in inside.splitlines()]
    left = [line for line in inside.splitlines() if line.startswith("|") and line not in table(rows).splitlines()]
    totals["FAIL" if missing or left else "PASS"] += 1
    print(f"{'FAIL' if missing or left else 'PASS'}  {PAGE.name} has these lines")
    for row in missing:
        print(f"    missing: {row}")
    for row in left:
        print(f"    not so:  {row}")
    if missing or left:
        print("    drills.py --write writes it anew")
    return before, after


class TreeFabric(Fabric):
    """The fabric of all drills."""

    def __init__(self, softib, also=""):
        super().__init__(softib)
        self.also = also

    def up(self):
        path = pathlib.Path(self.folder) / "tree.yaml"
        made = self.call(*TREE, "--name", "default", "-o", str(path))
        if made.returncode != 0:
            raise FabricError(f"softib topo failed: {made.stderr}")
        with path.open("a") as file:
            file.write(self.also)
        self.description = str(path)
        super().up()


def main():
    parser = new_parser(__doc__)
    parser.add_argument("--write", action="store_true", help="write the table of docs/fault-drills.md")
    suite = Suite(parser)
    found = {}
    suite.alone([drilled(drill, found) for drill in DRILLS])
    rows = [row for drill in DRILLS for row in found.get(drill, ())]
    if len(found) == len(DRILLS):
        if suite.arguments.write:
            before, _, after = page_parts()
            PAGE.write_text(before + table(rows) + "\n" + after)
        compare(rows, suite.totals)
    else:
        for row in rows:
            print(row)
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
