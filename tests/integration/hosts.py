#!/usr/bin/env python3
"""Hosts as places: networks, names and files of their own, and programs that are started there.

Needs root or unprivileged user namespaces for most; where neither is allowed those cases are skipped, with softib's own
word for why.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from softib_fabric import Fabric, wait_gone
from suite import Skip, Suite, check, need_namespaces, new_parser, wait_for

OTHER_USER = 1000
STATIC_PROGRAM = """
#include <dirent.h>
#include <stdio.h>
int main(int argc, char** argv) {
  DIR* folder = opendir(argv[1]);
  struct dirent* entry;
  while (folder && (entry = readdir(folder))) puts(entry->d_name);
  return folder ? 0 : 1;
}
"""


class Places(Fabric):
    """A fabric whose hosts have namespaces."""

    def __init__(self, softib, *words, user=None):
        super().__init__(softib)
        self.words = words
        self.environment.pop("SOFTIB_NAMESPACES")
        self.user = user
        if user:
            os.chown(self.folder, user, user)
            self.environment["HOME"] = self.folder

    def as_user(self, argv):
        if not self.user:
            return argv
        # With as much memory to lock as distributions allow.
        return ["prlimit", "--memlock=8388608", "setpriv", f"--reuid={self.user}", f"--regid={self.user}",
                "--clear-groups", *argv]

    def command(self, *words):
        return self.as_user(super().command(*words))

    def up(self):
        done = self.call("up", *self.words, seconds=120)
        check(done.returncode == 0, f"softib up: {done.stdout}{done.stderr}{self.daemon_log()}")
        self.needs()

    def needs(self):
        if "off" not in self.words:
            need_namespaces(self)

    def text(self, host, *argv, status=0, **more):
        got, output = self.run(host, list(argv), **more)
        check(got == status, f"{host}: {' '.join(argv)}: status {got}\n{output}")
        return output.strip()


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")


def same(found, expected, what):
    check(found == expected, f"{what}: {found!r}, not {expected!r}")


# -- one host


def a_host_has_its_own_name_and_network(places):
    same(places.text("host1", "hostname"), "host1", "hostname")
    same(places.text("host1", "uname", "-n"), "host1", "uname -n")
    same(places.text("host1", "cat", "/etc/hostname"), "host1", "/etc/hostname")
    found = set(places.text("host1", "ls", "/sys/class/net").split())
    check({"eth0", "lo"} <= found <= {"eth0", "lo", "ib0"}, f"interfaces in sysfs: {found}")
    addresses = places.text("host1", "ip", "-br", "addr", "show", "eth0")
    check("10.255.0.2/16" in addresses and "fd53:6f66:7449:42::2/64" in addresses, addresses)


def names_lead_to_hosts_and_their_ports(places):
    lines = [line.split() for line in places.text("host0", "cat", "/etc/hosts").splitlines()]
    for line in (["10.255.0.1", "host0"], ["10.255.0.2", "host1"], ["10.0.0.2", "host1-ib0"]):
        check(line in lines, f"/etc/hosts has no {line}: {lines}")
    same(places.text("host0", "getent", "hosts", "host1").split(), ["10.255.0.2", "host1"], "getent")


def hosts_reach_each_other(places):
    need("ping")
    for target in ("host1", "host1-ip6", "fd53:6f66:7449:42::2"):
        check("1 received" in places.text("host0", "ping", "-c1", "-W5", target), target)


TCP_SERVER = """
import socket
server = socket.create_server(("host1", 4711))
client, who = server.accept()
print(socket.getnameinfo(who, 0)[0])
client.sendall(b"hello")
"""
TCP_CLIENT = """
import socket, time
for _ in range(200):
    try:
        client = socket.create_connection(("host1", 4711))
        break
    except OSError:
        time.sleep(0.05)
print(client.recv(9).decode())
"""


def tcp_connects_by_name(places):
    server = places.start("host1", [sys.executable, "-c", TCP_SERVER])
    try:
        same(places.text("host0", sys.executable, "-c", TCP_CLIENT), "hello", "what the server said")
        same(server.wait(10), 0, "the server's status")
        # On loopback a connection comes from no host.
        is_plain = places.status()["namespaces"]["kind"] == "plain"
        same(server.output().strip(), "localhost" if is_plain else "host0", "who connected")
    finally:
        server.stop()


def another_host_is_not_localhost(places):
    probe = "import socket; socket.create_server(('127.0.0.1', 4712)); print('free')"
    server = places.start("host1", [sys.executable, "-c", "import socket, time\n"
                                    "s = socket.create_server(('127.0.0.1', 4712))\n"
                                    "print('up', flush=True)\ntime.sleep(60)"])
    try:
        wait_for(lambda: "up" in server.output(), "the server did not start")
        same(places.text("host0", sys.executable, "-c", probe), "free", "port 4712 of host0")
    finally:
        server.stop()


def static_programs_see_the_hcas(places):
    need("cc")
    source, program = pathlib.Path(places.folder) / "list.c", pathlib.Path(places.folder) / "list"
    source.write_text(STATIC_PROGRAM)
    built = subprocess.run(["cc", "-static", "-o", program, source], capture_output=True, text=True, check=False)
    if built.returncode:
        raise Skip(f"no static programs here: {built.stderr.splitlines()[-1]}")
    for folder, wanted in (("infiniband", "mlx5_0"), ("infiniband_verbs", "uverbs0"), ("infiniband_mad", "umad0"),
                           ("infiniband/mlx5_0/ports/1", "state"), ("net", "eth0")):
        found = places.text("host0", str(program), f"/sys/class/{folder}")
        check(wanted in found.split(), f"/sys/class/{folder} has no {wanted}: {found}")
    for other in os.listdir("/sys/class"):
        check(other in places.text("host0", str(program), "/sys/class").split(), f"/sys/class/{other} is gone")


def rdma_programs_run_between_hosts(places):
    need("ibv_rc_pingpong", "ib_write_bw", "ibstat")
    check("State: Active" in places.text("host0", "ibstat"), "ibstat")
    for program in (["ibv_rc_pingpong", "-e"], ["ib_write_bw", "-F", "-n", "100"]):
        server = places.start("host0", program)
        try:
            wait_for(lambda: "0A" in [line.split()[3] for line in
                                      places.text("host0", "cat", "/proc/net/tcp", "/proc/net/tcp6").splitlines()],
                     f"{program[0]} does not listen")
            places.text("host1", *program, "host0")
            same(server.wait(20), 0, f"the server's status: {server.output()}")
        finally:
            server.stop()


# -- softib run and its like


def a_command_is_itself(places):
    same(places.text("host0", "sh", "-c", "exit 7", status=7), "", "output")
    same(places.run("host0", ["sh", "-c", "kill -TERM $$"])[0], -signal.SIGTERM, "a signal")
    same(places.call("run", "host0", "nosuchprogram").returncode, 127, "an unknown command")
    same(places.call("run", "nohost", "true").returncode, 125, "an unknown host")
    same(places.text("host0", "pwd"), os.path.realpath(places.folder), "the working folder")
    done = subprocess.run(places.command("run", "host0", "--", "cat"), env=places.environment, input="in\n",
                          capture_output=True, text=True, timeout=20, check=False)
    same(done.stdout, "in\n", "stdin")
    program = places.start("host0", ["sleep", "100"])
    wait_for(lambda: pathlib.Path(f"/proc/{program.process.pid}/comm").read_text() == "sleep\n" or places.user,
             "softib is still there")
    program.process.send_signal(signal.SIGINT)
    same(program.wait(10), -signal.SIGINT, "an interrupt")


NUMBERS = 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT"'


def each_knows_which_it_is(places):
    def told(*hosts, **environment):
        done = subprocess.run(places.command("run", *hosts, "--", "sh", "-c", NUMBERS), capture_output=True, text=True,
                              env=dict(places.environment, **environment), timeout=30, check=False)
        lines = sorted(line.split() for line in done.stdout.splitlines())
        check(lines and len({line[4] for line in lines}) == 1, f"one port for all: {lines}")
        return [line[:4] for line in lines], lines[0][4]

    lines, port = told("all")
    same(lines, [["host0:", "0/2", "0/1", "host0"], ["host1:", "1/2", "0/1", "host0"]], "numbers")
    check(20000 <= int(port) < 32000, f"port {port}")
    same(told("host1", "host0", "host1")[0], [["host0:", "1/3", "0/1", "host1"], ["host1:", "0/3", "0/2", "host1"],
                                              ["host1:", "2/3", "1/2", "host1"]], "a host twice")
    lines, port = told("all", MASTER_ADDR="host1-ib0", MASTER_PORT="4711")
    same((lines[0], port), (["host0:", "0/2", "0/1", "host1-ib0"], "4711"), "what the caller has set")
    same(told("all", RANK="7", WORLD_SIZE="8")[0][1], ["host1:", "7/8", "/", "host0"], "a caller's own numbers")
    same(places.text("host0", "sh", "-c", "echo $RANK$WORLD_SIZE$MASTER_ADDR"), "", "on one host")


def several_hosts_at_once(places):
    done = places.call("run", "host0", "host1", "--", "sh", "-c",
                       "hostname; hostname >&2; test $(hostname) = host0 || exit 3")
    same(sorted(done.stdout.splitlines()), ["host0: host0", "host1: host1"], "stdout")
    same(sorted(done.stderr.splitlines()), ["host0: host0", "host1: host1"], "stderr")
    same(done.returncode, 3, "status")
    done = places.call("run", "--no-prefix", "all", "--", "printf", "no end")
    same(done.stdout, "no end\nno end\n", "lines without an end")
    same(places.call("run", "host0", "--", "echo", "a", "--", "b").stdout, "a -- b\n", "a -- of the command's own")
    each_knows_which_it_is(places)
    program = subprocess.Popen(places.command("run", "all", "--", "sleep", "100"), env=places.environment)
    time.sleep(0.5)
    program.send_signal(signal.SIGTERM)
    same(program.wait(10), 128 + signal.SIGTERM, "a signal to all")


def ssh_for_launchers(places):
    def ssh(*words):
        return places.call("ssh", *words)

    same(ssh("-x", "-q", "-oA=b", "-l", "me", "host1", "hostname; exit", "4").stdout, "host1\n", "a command")
    same(ssh("host1", "exit 4").returncode, 4, "status")
    same(ssh("me@host1-ib0", "echo", "'a  b'").stdout, "a  b\n", "words for a shell")
    same(ssh("10.255.0.2", "hostname").stdout, "host1\n", "an address")
    same(ssh("nohost", "true").returncode, 255, "an unknown host")
    same(ssh("-L", "1:a:2", "host1").returncode, 255, "forwarding")
    same(places.text("host0", "softib-ssh", "host1", "hostname"), "host1", "from a host")


def ports_keep_their_files(places):
    """A namespace tells where a program is, whatever variables a launcher has handed on."""
    need("ibstat")
    wanted = places.text("host1", "ibstat", "-p")
    same(places.text("host1", "env", "SOFTIB_HOST=host0", "ibstat", "-p"), wanted, "port GUIDs")


def all_programs_of_a_dead_host_die(places):
    """Those that use no HCA too, and no other host's."""
    victim, other = (places.start(host, ["sleep", "100"]) for host in ("host1", "host0"))
    try:
        wait_for(lambda: all(pathlib.Path(f"/proc/{program.process.pid}/comm").read_text() == "sleep\n"
                             for program in (victim, other)), "sleep does not run")
        check("killed" in places.call("host", "host1", "kill").stdout, "the command does not say so")
        same(victim.wait(10), -signal.SIGKILL, "a program on the dead host")
        same(other.poll(), None, "a program on another host")
        same(places.call("run", "host1", "true").returncode, 125, "a program for the dead host")
        same(places.call("host", "host1", "on").returncode, 0, "on")
        same(places.text("host1", "hostname"), "host1", "hostname after it is on again")
    finally:
        for program in (victim, other):
            program.stop()


def the_hostfile(places):
    same(places.call("hostfile", "--slots", "2").stdout, "host0 slots=2\nhost1 slots=2\n", "Open MPI's")
    same(places.call("hostfile", "--slots", "2", "--format", "mpich").stdout, "host0:2\nhost1:2\n", "MPICH's")


ON_HOSTS = [a_host_has_its_own_name_and_network, names_lead_to_hosts_and_their_ports, hosts_reach_each_other,
            tcp_connects_by_name, another_host_is_not_localhost, static_programs_see_the_hcas,
            rdma_programs_run_between_hosts, a_command_is_itself, several_hosts_at_once, ssh_for_launchers,
            ports_keep_their_files, the_hostfile, all_programs_of_a_dead_host_die]


# -- whole fabrics


def as_another_user(softib):
    if os.geteuid() != 0:
        raise Skip("the cases before this one ran without root already")
    with Places(softib, user=OTHER_USER) as places:
        check(places.status()["namespaces"]["user_namespace"], "not in a user namespace")
        same(places.text("host0", "id", "-u"), str(OTHER_USER), "the user")
        same(places.text("host0", "sh", "-c", f'"{softib}" run host1 -- hostname'), "host1", "from host to host")
        if os.access("/dev/net/tun", os.R_OK | os.W_OK):  # whatever this user may lock of memory
            wait_for(lambda: "LOWER_UP" in places.text("host0", "ip", "link", "show", "ib0"), "ib0 is not up")
            check("1 received" in places.text("host0", "ping", "-c1", "-W5", "host1-ib0"), "IP over InfiniBand")
            same(places.text("host0", "ibdev2netdev"), "mlx5_0 port 1 ==> ib0 (Up)", "ibdev2netdev")
        for case in (a_host_has_its_own_name_and_network, hosts_reach_each_other, rdma_programs_run_between_hosts,
                     ssh_for_launchers, all_programs_of_a_dead_host_die):
            try:
                case(places)
            except Skip:
                continue
        places.text("host0", "ip", "addr", "add", "10.9.9.9/24", "dev", "eth0")


def processes_of_their_own(softib):
    with Fabric(softib) as probe:
        path = pathlib.Path(probe.folder) / "pids.yaml"
        path.write_text("hosts: 2\nnamespaces: {use: auto, pid: true}\n")
        with Places(softib, str(path)) as places:
            same(places.text("host0", "sh", "-c", "test $$ -lt 100 && echo few"), "few", "process numbers")
            same(places.text("host0", "sh", "-c", "exit 5", status=5), "", "status")
            same(places.run("host0", ["sh", "-c", "kill -KILL $$"])[0], -signal.SIGKILL, "a signal")
            program = places.start("host0", ["sleep", "100"])
            time.sleep(0.5)
            program.process.send_signal(signal.SIGTERM)
            same(program.wait(10), -signal.SIGTERM, "a signal from outside")
            rdma_programs_run_between_hosts(places)


def no_rights_are_told_once(softib):
    """A user without them gets a note that names cause and remedy, or an error where the fabric insists."""
    limit = pathlib.Path("/proc/sys/user/max_user_namespaces")
    if os.geteuid() == 0:
        raise Skip("root has all rights")
    if limit.read_text().strip() != "0":
        raise Skip("this user has the rights")
    places = Places(softib)
    done = places.call("up")
    check("note: hosts have no network" in done.stderr and "sysctl" in done.stderr, done.stderr)
    places.down()


def interfaces():
    return {path.name for path in pathlib.Path("/sys/class/net").iterdir()}


def namespaces_of(pids):
    found = set()
    for pid in pids:
        try:
            found.add(os.readlink(f"/proc/{pid}/ns/net"))
        except OSError:
            continue
    return found


def children_of(pid):
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def is_gone(pids, before):
    return all(wait_gone(pid, 0.02) for pid in pids) and interfaces() <= before


def nothing_is_left(softib, victim):
    before = interfaces()
    places = Places(softib)
    try:
        places.up()
        keeper = places.status()["namespaces"]["keeper_pid"]
        hosts = children_of(keeper)
        check(len(hosts) >= 2, f"the keeper has children {hosts}")
        hosts += [service for host in hosts for service in children_of(host)]
        daemon = places.daemon_pid()
        victim(places, daemon, keeper)
        wait_for(lambda: is_gone([keeper, *hosts], before), f"some of {keeper}, {hosts} or an interface is left")
        if victim is kill_keeper:
            same(places.status()["namespaces"]["kind"], "lost", "status")
            done = places.call("run", "host0", "true")
            check(done.returncode == 125 and "the keeper of their namespaces died" in done.stderr, done.stderr)
    finally:
        places.down()
    same(interfaces() - before, set(), "interfaces")


def kill_daemon(_places, daemon, _keeper):
    os.kill(daemon, signal.SIGKILL)


def kill_keeper(_places, _daemon, keeper):
    os.kill(keeper, signal.SIGKILL)


def end_fabric(places, _daemon, _keeper):
    same(places.call("down").returncode, 0, "down")


def nothing_is_left_of_a_killed_daemon(softib):
    nothing_is_left(softib, kill_daemon)


def nothing_is_left_of_a_killed_keeper(softib):
    nothing_is_left(softib, kill_keeper)


def nothing_is_left_after_down(softib):
    nothing_is_left(softib, end_fabric)


def a_dead_host_is_made_anew(softib):
    with Places(softib) as places:
        keeper = places.status()["namespaces"]["keeper_pid"]
        for host in children_of(keeper):
            os.kill(host, signal.SIGKILL)
        wait_for(lambda: "new ones" in places.daemon_log(), "softibd was not told")
        same(places.text("host1", "hostname"), "host1", "hostname")
        hosts_reach_each_other_or_skip(places)


def hosts_reach_each_other_or_skip(places):
    same(places.text("host0", "hostname"), "host0", "hostname")
    hosts_reach_each_other(places)


def two_fabrics_at_once(softib):
    with Places(softib) as one, Places(softib) as other:
        same(one.text("host0", "hostname"), other.text("host0", "hostname"), "hostnames")
        if one.status()["namespaces"].get("link"):
            check("already" in other.status()["namespaces"]["note"], "the second does not say who has the addresses")


def way_to(address):
    """How the machine sends there; of hosts that the kernel remembers it says more the second time."""
    done = subprocess.run(["ip", "route", "get", address], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.replace("cache", "").split()


def the_machine_reaches_others_as_before(softib):
    """Others may have addresses of the network of which the hosts have a few; a name server, for example."""
    need("ip")
    others = ["10.255.0.0", "10.255.0.3", "10.255.0.77", "10.255.200.1", "10.255.255.53", "10.255.255.253",
              "10.255.255.255", "10.254.0.1", "224.0.0.1"]
    before = {address: way_to(address) for address in others}
    with Places(softib) as places:
        link = places.status()["namespaces"].get("link")
        if not link:
            raise Skip("the machine has no interface on the hosts' network")
        for address in ("10.255.0.1", "10.255.0.2"):
            check(link in way_to(address)[1], f"{address}: {way_to(address)}")
        for address in others:
            same(way_to(address), before[address], address)
        need("ping")
        done = subprocess.run(["ping", "-c1", "-W5", "10.255.0.2"], capture_output=True, text=True, check=False)
        check("1 received" in done.stdout, done.stdout)
        check("1 received" in places.text("host1", "ping", "-c1", "-W5", "10.255.255.254"), "the machine from a host")


def hosts_of_a_large_fabric_come_when_used(softib):
    with Fabric(softib) as probe:
        path = pathlib.Path(probe.folder) / "large.yaml"
        path.write_text("hosts: 64\nhcas: 1\nswitches: [{name: sw0, ports: 64}]\n"
                        "cables: [" + ", ".join(f"[host{i}/mlx5_0, sw0/{i + 1}]" for i in range(64)) + "]\n")
        with Places(softib, str(path)) as places:
            keeper = places.status()["namespaces"]["keeper_pid"]
            same(len(children_of(keeper)), 1, "hosts made ahead")
            same(places.text("host63", "hostname"), "host63", "hostname")
            same(len(children_of(keeper)), 2, "hosts after one was used")


WHOLE = [as_another_user, processes_of_their_own, no_rights_are_told_once,
         nothing_is_left_of_a_killed_daemon, nothing_is_left_of_a_killed_keeper, nothing_is_left_after_down,
         a_dead_host_is_made_anew, two_fabrics_at_once, the_machine_reaches_others_as_before,
         hosts_of_a_large_fabric_come_when_used]


def on_shared_hosts(suite):
    cases = suite.chosen(ON_HOSTS)
    if not cases:
        return
    try:
        with Places(suite.arguments.softib) as places:
            suite.run_each(cases, places)
    except Skip as reason:
        suite.skip_each(cases, reason)


def main():
    suite = Suite(new_parser(__doc__))
    on_shared_hosts(suite)
    suite.alone(WHOLE)
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
