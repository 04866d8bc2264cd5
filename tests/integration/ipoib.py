#!/usr/bin/env python3
"""IP over InfiniBand: softib-ipoib in network namespaces of its own, one for each host.

    ipoib.py [--softib PATH] [--filter REGEX]

Prints PASS, FAIL or SKIP for each case, and a total line.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from softib_fabric import Fabric, Program
from suite import Skip, Suite, check, described, new_parser, run, wait_for

THREE = """
fabric: default
hosts:
  - {name: host0, hcas: [{pkeys: [0xffff, 0x8001]}]}
  - {name: host1, hcas: [{pkeys: [0xffff, 0x8001]}]}
  - {name: host2}
"""

# One end of a stream: counts what comes, and sends as much.
SERVER = """
import hashlib, socket, sys
kind = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
server = socket.create_server((sys.argv[1], 7001), family=kind)
print("listening", flush=True)
peer, _ = server.accept()
digest = hashlib.sha256()
got = 0
while got < int(sys.argv[2]):
    piece = peer.recv(1 << 20)
    if not piece:
        break
    digest.update(piece)
    got += len(piece)
peer.sendall(digest.digest())
peer.close()
"""
CLIENT = """
import hashlib, os, socket, sys
data = os.urandom(1 << 20) * (int(sys.argv[2]) >> 20)
peer = socket.create_connection((sys.argv[1], 7001), timeout=20)
peer.sendall(data)
answer = b""
while len(answer) < 32:
    piece = peer.recv(32)
    if not piece:
        break
    answer += piece
sys.exit(0 if answer == hashlib.sha256(data).digest() else "what came is not what was sent")
"""
# Sizes of one packet and of many fragments. The first large one to a host of another mode is lost, as its way is not
# known to be narrow before: so all is asked for again until it comes.
DATAGRAMS = """
import socket, sys
here, there = sys.argv[1:3]
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.bind((here, 7002))
if sys.argv[3] == "answer":
    print("listening", flush=True)
    while True:
        data, who = one.recvfrom(65536)
        one.sendto(data[::-1], who)
one.settimeout(1)
for size in (1, 2000, 20000):
    data = bytes(i % 251 for i in range(size))
    for last in (False, False, True):
        one.sendto(data, (there, 7002))
        try:
            assert one.recvfrom(65536)[0] == data[::-1], size
            break
        except TimeoutError:
            assert not last, f"{size} bytes do not come back"
"""
LISTEN = """
import socket, struct, sys
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.bind(("", 7003))
group = socket.inet_aton("239.1.2.3") + socket.inet_aton(sys.argv[1])
one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
one.settimeout(20)
print("listening", flush=True)
print(one.recvfrom(100)[0].decode(), flush=True)
"""
TELL = """
import socket, sys, time
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[1]))
for _ in range(100):
    one.sendto(b"to all", ("239.1.2.3", 7003))
    time.sleep(0.1)
"""


class Host:
    """A network namespace in which the service of a host of the fabric runs."""

    def __init__(self, fabric, name):
        self.fabric, self.name, self.service = fabric, name, None
        root = os.geteuid() == 0
        self.keeper = subprocess.Popen([*(["unshare", "-n"] if root else ["unshare", "-r", "-n"]), "sleep", "600"])
        spaces = ["-n"] if root else ["-U", "-n", "--preserve-credentials"]
        self.entering = ["nsenter", "-t", str(self.keeper.pid), *spaces]
        wait_for(self.is_there, "no namespace")
        self.run("ip", "link", "set", "lo", "up")

    def is_there(self):
        try:
            return os.readlink(f"/proc/{self.keeper.pid}/ns/net") != os.readlink("/proc/self/ns/net") and \
                pathlib.Path(f"/proc/{self.keeper.pid}/comm").read_text() == "sleep\n"
        except OSError:
            return False

    def serve(self, *interfaces, ready=True):
        program = pathlib.Path(self.fabric.softib).parent / "softib-ipoib"
        if not program.exists():
            program = pathlib.Path(self.fabric.softib).parents[1] / "libexec" / "softib" / "softib-ipoib"
        words = [word for interface in interfaces for word in ("--interface", interface)]
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)
        self.service = subprocess.Popen(
            [*self.entering, *self.fabric.command("run", self.name, "--", str(program), *words, "--ready-fd",
                                                  str(writing))],
            env=self.fabric.environment, pass_fds=[writing])
        os.close(writing)
        with os.fdopen(reading) as pipe:
            check(pipe.readline() == "ready\n", f"{self.name}: the service did not get ready")
        return self

    def run(self, *argv, status=0, seconds=60):
        done = subprocess.run([*self.entering, *argv], capture_output=True, text=True, timeout=seconds, check=False)
        output = done.stdout + done.stderr
        check(done.returncode == status, f"{self.name}: {' '.join(argv)}: {done.returncode}\n{output}")
        return output

    def python(self, text, *argv):
        return self.run(sys.executable, "-c", text, *argv)

    def start_python(self, text, *argv):
        program = Program([*self.entering, sys.executable, "-c", text, *argv], dict(os.environ), "/")
        wait_for(lambda: "listening" in program.output() or program.poll() is not None, "no server")
        return program

    def carrier(self, name="ib0"):
        return "LOWER_UP" in self.run("ip", "-o", "link", "show", name)

    def link_local(self, name="ib0"):
        return re.search(r"inet6 (fe80:[0-9a-f:]+)/64", self.run("ip", "-6", "-o", "addr", "show", name)).group(1)

    def reaches(self, address, *options):
        done = subprocess.run([*self.entering, "ping", "-c", "1", "-W", "1", *options, address], capture_output=True,
                              check=False)
        return done.returncode == 0

    def end_service(self, how=signal.SIGTERM):
        if self.service:
            self.service.send_signal(how)
            check(self.service.wait(10) in (0, -how), f"the service ended with {self.service.returncode}")
            self.service = None

    def stop(self):
        try:
            self.end_service()
        finally:
            self.keeper.kill()
            self.keeper.wait()


class Hosts:
    """with Hosts(fabric, "connected", "datagram") as hosts: host0, host1, ... with ib0 in these modes."""

    def __init__(self, fabric, *modes):
        self.fabric, self.modes, self.hosts = fabric, modes, []

    def __enter__(self):
        try:
            for number, mode in enumerate(self.modes):
                host = Host(self.fabric, f"host{number}")
                self.hosts.append(host)
                host.serve(f"ib0=mlx5_0/1,mode={mode},address=10.0.0.{number + 1}/16,address=fd00::{number + 1}/64")
        except BaseException:
            self.__exit__()
            raise
        return self.hosts

    def __exit__(self, *_):
        for host in self.hosts:
            host.stop()


def possible():
    if not shutil.which("ip") or not shutil.which("ping"):
        raise Skip("iproute2 or iputils-ping is not installed")
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise Skip("/dev/net/tun can't be opened")
    unshare = ["unshare", "-n", "true"] if os.geteuid() == 0 else ["unshare", "-r", "-n", "true"]
    tried = subprocess.run(unshare, capture_output=True, check=False)
    if tried.returncode != 0:
        raise Skip("no right to make network namespaces")


def groups(fabric):
    """MGIDs that the subnet manager knows, as text."""
    return re.findall(r"MGID\.+(\S+)", run(fabric, "host0", "saquery", "-g"))


def transfer(server, client, address, size=16 << 20):
    listening = server.start_python(SERVER, address, str(size))
    try:
        client.python(CLIENT, address, str(size))
    finally:
        listening.stop()


# -- cases -------------------------------------------------------------------------------------------------------------


def pings_are_counted_to_the_word(fabric):
    """Payload, IP and ICMP headers, encapsulation; LRH, BTH, DETH, ICRC."""
    with Hosts(fabric, "datagram", "datagram") as (one, two):
        one.run("ping", "-c", "1", "10.0.0.2")
        before, packets_before = data(fabric)
        one.run("ping", "-c", "10", "-i", "0.02", "-s", "1000", "10.0.0.2")
        after, packets_after = data(fabric)
        words = (1000 + 8 + 20 + 4 + 8 + 12 + 8 + 4) // 4
        check(after - before == 10 * words, f"{after - before} words for 10 times {words}")
        check(packets_after - packets_before == 10, f"{packets_after - packets_before} packets")
        one.run("ping", "-c", "1", "-6", f"{two.link_local()}%ib0")
        one.run("ping", "-c", "1", "-6", "fd00::2")
        one.run("ping", "-c", "1", "-s", "20000", "10.0.0.2")
        nobody = one.run("ping", "-c", "1", "-W", "5", "10.0.0.77", status=1)
        check("Unreachable" in nobody, nobody)


def data(fabric):
    text = run(fabric, "host0", "perfquery", "-x")
    return [int(re.search(rf"{name}:\.+(\d+)", text).group(1)) for name in ("PortXmitData", "PortXmitPkts")]


def streams_and_datagrams_arrive_whole(fabric):
    """TCP and UDP between hosts in each mode, and from one mode to the other."""
    with Hosts(fabric, "connected", "datagram", "connected") as hosts:
        for server, client in ((0, 1), (1, 0), (2, 0)):
            transfer(hosts[server], hosts[client], f"10.0.0.{server + 1}")
        transfer(hosts[0], hosts[2], "fd00::1")
        transfer(hosts[1], hosts[0], "fd00::2")
        for server, client in ((0, 1), (2, 0)):
            addresses = [f"10.0.0.{server + 1}", f"10.0.0.{client + 1}"]
            answering = hosts[server].start_python(DATAGRAMS, *addresses, "answer")
            try:
                hosts[client].python(DATAGRAMS, *reversed(addresses), "ask")
            finally:
                answering.stop()
        hosts[0].run("ping", "-c", "1", "-s", "65000", "10.0.0.3")
        check("mtu 65520" in hosts[0].run("ip", "link", "show", "ib0"), "MTU of connected mode")
        check("mtu 2044" in hosts[1].run("ip", "link", "show", "ib0"), "MTU of datagram mode")


def multicast_reaches_members_and_groups_go_with_them(fabric):
    mgid = "ff12:401b:ffff::f01:203"
    with Hosts(fabric, "datagram", "datagram", "datagram") as (one, two, three):
        members = [host.start_python(LISTEN, f"10.0.0.{number}") for number, host in ((2, two), (3, three))]
        teller = Program([*one.entering, sys.executable, "-c", TELL, "10.0.0.1"], dict(os.environ), "/")
        try:
            for member in members:
                check(member.wait(15) == 0 and "to all" in member.output(), member.output())
            check(mgid in groups(fabric), f"no {mgid} in {groups(fabric)}")
        finally:
            for program in (teller, *members):
                program.stop()
        two.run("sysctl", "-qw", "net.ipv4.icmp_echo_ignore_broadcasts=0")
        check(one.reaches("10.0.255.255", "-b"), "broadcast")
    check(not [one for one in groups(fabric) if ":601b:" in one or one == mgid], f"left behind: {groups(fabric)}")


def addresses_and_routes_are_followed(fabric):
    with Hosts(fabric, "datagram", "datagram") as (one, two):
        one.run("ip", "addr", "add", "10.7.0.1/24", "dev", "ib0")
        two.run("ip", "addr", "add", "10.7.0.2/24", "dev", "ib0")
        wait_for(lambda: one.reaches("10.7.0.2"), "an address that was added is not reached")
        two.run("ip", "addr", "add", "192.168.9.1/32", "dev", "lo")
        one.run("ip", "route", "add", "192.168.9.0/24", "via", "10.7.0.2")
        check(one.reaches("192.168.9.1"), "no way through a gateway")
        one.run("ip", "route", "replace", "192.168.9.0/24", "via", "10.7.0.99")
        check(not one.reaches("192.168.9.1"), "a gateway that nobody is")
        two.run("ip", "addr", "del", "10.7.0.2/24", "dev", "ib0")
        check(not one.reaches("10.7.0.2"), "an address that was taken away is answered for")


def partitions_have_interfaces_of_their_own(fabric):
    hosts = [Host(fabric, f"host{number}") for number in range(3)]
    try:
        for number, host in enumerate(hosts):
            host.serve(f"ib0=mlx5_0/1,address=10.0.0.{number + 1}/16",
                       f"ib0.8001=mlx5_0/1,pkey=0x8001,mode=connected,address=10.1.0.{number + 1}/16")
        one, two, three = hosts
        check(one.reaches("10.1.0.2") and one.reaches("10.0.0.3"), "members")
        transfer(two, one, "10.1.0.2", 1 << 20)
        check(not three.carrier("ib0.8001") and not one.reaches("10.1.0.3"), "host2 is not in the partition")
        check("ff12:401b:8001::ffff:ffff" in groups(fabric), str(groups(fabric)))
    finally:
        for host in hosts:
            host.stop()


def links_go_and_come(fabric):
    with Hosts(fabric, "connected", "connected") as (one, two):
        check(one.reaches("10.0.0.2"), "before")
        fabric.call("link", "host1", "down")
        wait_for(lambda: not two.carrier(), "host1's interface is up without a link")
        check(not one.reaches("10.0.0.2"), "without a link")
        fabric.call("link", "host1", "up")
        wait_for(two.carrier, "host1's interface does not come back")
        wait_for(lambda: one.reaches("10.0.0.2") and two.reaches("fd00::1"), "the way does not come back")
        transfer(two, one, "10.0.0.2", 1 << 20)


def a_new_subnet_manager_is_told_all(fabric):
    with Hosts(fabric, "datagram", "datagram") as (one, two):
        fabric.call("sm", "kill")
        fabric.call("sm", "restart")
        broadcast = "ff12:401b:ffff::ffff:ffff"
        solicited = "ff12:601b:ffff::1:ff00:2"
        wait_for(lambda: {broadcast, solicited} <= set(groups(fabric)), f"groups: {groups(fabric)}")
        wait_for(lambda: one.reaches("10.0.0.2") and two.reaches("fd00::1"), "no way after the manager's restart")


def who_dies_is_missed_and_found_again(fabric):
    with Hosts(fabric, "connected", "connected") as (one, two):
        transfer(two, one, "10.0.0.2", 1 << 20)
        two.end_service(signal.SIGKILL)
        check("ib0" not in two.run("ip", "-o", "link"), "the interface outlives its service")
        check(not one.reaches("10.0.0.2"), "a dead host answers")
        two.serve("ib0=mlx5_0/1,mode=connected,address=10.0.0.2/16")
        wait_for(lambda: one.reaches("10.0.0.2"), "a host that is back is not found")
        transfer(two, one, "10.0.0.2", 1 << 20)


def opensm_serves_as_well(softib):
    if not shutil.which("opensm"):
        raise Skip("opensm is not installed")
    with described(softib, "hosts: 2\nsm: opensm\n") as fabric, Hosts(fabric, "datagram", "connected") as (one, two):
        check(one.reaches("10.0.0.2") and two.reaches("fd00::1"), "ping")
        transfer(two, one, "10.0.0.2", 1 << 20)


def places(softib, text="hosts: 2\n"):
    """A fabric whose hosts have networks of their own, and interfaces without a word more than `softib up`."""
    fabric = described(softib, text)
    fabric.environment["SOFTIB_NAMESPACES"] = "on"
    return fabric


def hosts_have_their_interfaces(softib):
    """By the names of /etc/hosts."""
    with places(softib) as fabric:
        run(fabric, "host0", "ping", "-c", "1", "-W", "5", "host1-ib0")
        check("10.0.0.1/16" in run(fabric, "host0", "ip", "-o", "addr", "show", "ib0"), "host0's address")
        fabric.call("host", "host1", "kill")
        wait_for(lambda: "LOWER_UP" not in fabric.run("host1", ["ip", "link", "show", "ib0"])[1],
                 "a dead host's interface")
        fabric.call("host", "host1", "on")
        wait_for(lambda: fabric.run("host0", ["ping", "-c", "1", "-W", "1", "host1-ib0"])[0] == 0,
                 "a host that is back has no interface")
        wait_for(lambda: fabric.run("host1", ["ibdev2netdev"])[1] == "mlx5_0 port 1 ==> ib0 (Up)\n",
                 "nothing in sysfs tells whose the new interface is")
        fabric.call("hca", "host1", "remove")
        wait_for(lambda: fabric.run("host1", ["ip", "link", "show", "ib0"])[0] != 0,
                 "an HCA that is gone has an interface")
        fabric.call("hca", "host1", "add")
        wait_for(lambda: fabric.run("host0", ["ping", "-c", "1", "-W", "1", "host1-ib0"])[0] == 0,
                 "an HCA that is back has no interface")
        wait_for(lambda: fabric.run("host1", ["ibdev2netdev"])[1] == "mlx5_0 port 1 ==> ib0 (Up)\n", "ibdev2netdev")


# Beside the payload of TCP: IP, TCP with its time stamps, encapsulation; LRH, BTH, DETH, ICRC.
OVERHEAD = 20 + 32 + 4 + 8 + 12 + 8 + 4
SEGMENT = 2044 - 20 - 32
# What else may go over a link while it is measured: ARP, groups, the questions for the counters themselves.
OTHERS, LARGEST_OTHER = 64, 300


def port_counters(fabric, host, *where):
    text = run(fabric, host, "perfquery", "-x", *where)
    names = ("PortXmitData", "PortXmitPkts", "PortRcvData", "PortRcvPkts")
    return [int(re.search(rf"^{name}:\.+(\d+)", text, re.M).group(1)) for name in names]


def along_the_way(fabric, switch):
    """Bytes and packets that host0 has sent to host1, by the counters of each port on the way."""
    there = {"HCA of host0": (0, port_counters(fabric, "host0")),
             "switch, from host0": (2, port_counters(fabric, "host0", switch, "1")),
             "switch, to host1": (0, port_counters(fabric, "host0", switch, "2")),
             "HCA of host1": (2, port_counters(fabric, "host1"))}
    return {name: (4 * found[at], found[at + 1]) for name, (at, found) in there.items()}


def segments_sent_again(fabric):
    names, values = [line.split() for line in run(fabric, "host0", "cat", "/proc/net/snmp").splitlines()
                     if line.startswith("Tcp:")]
    return int(values[names.index("RetransSegs")])


def counted_along_the_way(fabric, switch, stream):
    """`stream` sends from host0 to host1 and says how many bytes TCP has carried, at least and at most."""
    before, again = along_the_way(fabric, switch), segments_sent_again(fabric)
    least, most = stream()
    again = segments_sent_again(fabric) - again
    moved = {place: (size - before[place][0], count - before[place][1])
             for place, (size, count) in along_the_way(fabric, switch).items()}
    origin = moved["HCA of host0"]
    for place, (size, count) in moved.items():
        # Each packet of TCP has exactly OVERHEAD bytes beside its payload, which is filled up to words.
        carried = size - count * OVERHEAD
        highest = most + 3 * count + again * SEGMENT + OTHERS * LARGEST_OTHER
        check(least - OTHERS * OVERHEAD <= carried <= highest,
              f"{place}: {carried} bytes beside {count} headers, of TCP {least} to {most}, at most {highest}")
        check(count >= least // SEGMENT, f"{place}: {count} packets for {least} bytes")
        check(abs(count - origin[1]) <= OTHERS and abs(size - origin[0]) <= OTHERS * LARGEST_OTHER,
              f"{place}: {size} bytes in {count} packets, at host0 {origin}")


def a_fixed_amount(fabric):
    address, size = "10.0.0.2", 16 << 20
    server = fabric.start("host1", [sys.executable, "-c", SERVER, address, str(size)])
    try:
        wait_for(lambda: "listening" in server.output(), "no server")
        run(fabric, "host0", sys.executable, "-c", CLIENT, address, str(size))
    finally:
        server.stop()
    return size, size


def as_fast_as_may_be(fabric):
    """What is not sent yet when the time is up never goes: qperf tells both what it wrote and what arrived."""
    server = fabric.start("host1", ["qperf"])
    try:
        wait_for(lambda: ":4D35" in run(fabric, "host1", "cat", "/proc/net/tcp", "/proc/net/tcp6"), "no qperf")
        text = run(fabric, "host0", "qperf", "-t", "1", "-uu", "--precision", "15", "-vvs", "host1-ib0", "tcp_bw")
    finally:
        server.stop()
    return tuple(int(re.search(rf"{name}_bytes\s+=\s+(\d+)", text).group(1)) for name in ("recv", "send"))


def streams_are_counted_along_the_way(softib):
    """A session of a user: names, ping, and TCP streams, whose bytes all ports between the hosts have counted."""
    with places(softib) as fabric:
        check(run(fabric, "host0", "hostname").strip() == "host0", "hostname")
        check("3 received" in run(fabric, "host0", "ping", "-c3", "-i0.1", "host1"), "ping over eth0")
        check("3 received" in run(fabric, "host0", "ping", "-c3", "-i0.1", "host1-ib0"), "ping over ib0")
        switch = re.search(r"lid (\d+)", run(fabric, "host0", "ibswitches")).group(1)
        counted_along_the_way(fabric, switch, lambda: a_fixed_amount(fabric))
        if not shutil.which("qperf"):
            raise Skip("qperf is not installed")
        counted_along_the_way(fabric, switch, lambda: as_fast_as_may_be(fabric))


def the_fabric_file_may_ask_for_connections(softib):
    with places(softib, "ipoib: connected\nhosts: 2\n") as fabric:
        run(fabric, "host0", "ping", "-c1", "-W5", "-s60000", "host1-ib0")
        check("mtu 65520" in run(fabric, "host0", "ip", "link", "show", "ib0"), "MTU of connected mode")
        check(run(fabric, "host0", "ping", "-c1", "-W5", "fd53:4942::2"), "IPv6 address of the port")
        before = port_counters(fabric, "host0")
        run(fabric, "host0", "ping", "-c1", "-W5", "-s60000", "host1-ib0")
        sent = [now - then for now, then in zip(port_counters(fabric, "host0"), before)]
        # 60,028 bytes behind 16 of the connection: one message in 15 packets of 4096 with LRH, BTH and ICRC; and the
        # acknowledgement (AETH) of the answer, which is as long.
        words = (60028 + 16 + 15 * (8 + 12 + 4) + 8 + 12 + 4 + 4) // 4
        check(sent == [words, 16, words, 16], f"one ping: {sent}, not {words} words")


def rdma_cm_follows_the_addresses_of_hosts(softib):
    """An address that is added leads rdma_cm to its port, also a child's to its partition; one that is gone nowhere."""
    if not shutil.which("rping"):
        raise Skip("rping is not installed")
    two = "{name: %s, hcas: [{pkeys: [0xffff, 0x8001]}]}"
    with places(softib, f"hosts: [{two % 'host0'}, {two % 'host1'}]\n") as fabric:
        for number in (0, 1):
            for interface, network in (("ib0", "10.77.0"), ("ib0.8001", "10.78.0")):
                run(fabric, f"host{number}", "ip", "addr", "add", f"{network}.{number + 1}/24", "dev", interface)

        def reached(address):
            server = fabric.start("host1", ["rping", "-s", "-C", "2", "-a", "0.0.0.0"])
            try:
                return fabric.run("host0", ["rping", "-c", "-C", "2", "-a", address])
            finally:
                server.stop()

        for address in ("10.77.0.2", "10.78.0.2", "10.0.0.2"):
            wait_for(lambda: reached(address)[0] == 0, f"rping {address}: {reached(address)}")
        run(fabric, "host1", "ip", "addr", "del", "10.77.0.2/24", "dev", "ib0")
        wait_for(lambda: "ADDR_ERROR" in reached("10.77.0.2")[1], "an address that was taken away leads somewhere")


def partitions_that_come_later_have_interfaces(softib):
    if not shutil.which("opensm"):
        raise Skip("opensm is not installed")
    text = "hosts: 2\nsm: opensm\npartitions: 'Default=0x7fff,ipoib: ALL=full;'\n"
    with places(softib, text) as fabric:
        check("ib0." not in run(fabric, "host0", "ip", "-o", "link"), "no further partition yet")
        rules = next(pathlib.Path(fabric.directory()).glob("opensm/*/partitions.conf"))
        rules.write_text("Default=0x7fff,ipoib: ALL=full;\nlab=0x10,ipoib: ALL=full;\n")
        for manager in fabric.status()["subnet_managers"]:
            os.kill(manager["pid"], signal.SIGHUP)
        for number in (0, 1):
            wait_for(lambda: "LOWER_UP" in fabric.run(f"host{number}", ["ip", "link", "show", "ib0.8010"])[1],
                     "no interface of a new partition")
            run(fabric, f"host{number}", "ip", "addr", "add", f"10.79.0.{number + 1}/24", "dev", "ib0.8010")
        run(fabric, "host0", "ping", "-c1", "-W5", "10.79.0.2")


def mistakes_are_told(fabric):
    host = Host(fabric, "host0")
    program = str(pathlib.Path(fabric.softib).parent / "softib-ipoib")

    def refused(*words, status=1):
        done = subprocess.run([*host.entering, *fabric.command("run", "host0", "--", program, *words)],
                              env=fabric.environment, capture_output=True, text=True, timeout=20, check=False)
        check(done.returncode == status, f"{words}: {done.returncode} {done.stderr}")
        return done.stderr

    try:
        check("mlx5_9" in refused("--interface", "ib0=mlx5_9/1"), "an unknown device")
        check("no port 3" in refused("--interface", "ib0=mlx5_0/3"), "an unknown port")
        check("there already" in refused("--interface", "lo=mlx5_0/1"), "a name that is taken")
        check("no TUN device" in refused("--interface", "ib1=mlx5_0/1", "--tun-fd", "ib1=0"), "no TUN")
        for words in (["ib0"], ["ib0=mlx5_0/1,mode=fast"], ["ib0=mlx5_0/1,mtu=1"], ["ib0=mlx5_0/1,address=1.2.3"],
                      ["ib0=mlx5_0/1,pkey=0"], ["ib0=mlx5_0/1,colour=red"], ["i b=mlx5_0"]):
            refused("--interface", *words, status=2)
    finally:
        host.stop()


ON_THREE = (pings_are_counted_to_the_word, streams_and_datagrams_arrive_whole,
            multicast_reaches_members_and_groups_go_with_them, addresses_and_routes_are_followed,
            partitions_have_interfaces_of_their_own, links_go_and_come, a_new_subnet_manager_is_told_all,
            who_dies_is_missed_and_found_again, mistakes_are_told)

ALONE = (opensm_serves_as_well, hosts_have_their_interfaces, streams_are_counted_along_the_way,
         the_fabric_file_may_ask_for_connections, rdma_cm_follows_the_addresses_of_hosts,
         partitions_that_come_later_have_interfaces)


def main():
    suite = Suite(new_parser(__doc__))
    try:
        possible()
    except Skip as reason:
        print(f"SKIP  all ({reason})\n0 passed, 0 failed, {len(ON_THREE + ALONE)} skipped")
        return 0
    suite.on(THREE, ON_THREE)
    suite.alone(ALONE)
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
