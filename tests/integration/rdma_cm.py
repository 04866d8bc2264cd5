#!/usr/bin/env python3
"""Connections by rdma_cm: the programs that come with librdmacm, perftest with -R, sockets over RDMA, what goes wrong.

Every case runs on both link layers. --full adds those that take minutes: time-outs of the protocol, thousands of
connections.
"""

import difflib
import filecmp
import os
import pathlib
import re
import shutil
import sys
import time

from softib_fabric import Fabric, free_port, is_listening
from suite import Mismatch, Skip, Suite, check, need_namespaces, new_parser, report, wait_for

KERNEL_SAYS = pathlib.Path(__file__).resolve().parents[1] / "conformance" / "cm_answers.txt"
ADDRESS = {"host0": "10.0.0.1", "host1": "10.0.0.2"}
LOOPBACK = {"host0": "127.64.0.1", "host1": "127.64.0.2"}
IPV6 = {"host0": "fd53:4942::1", "host1": "fd53:4942::2"}


def listeners(fabric):
    return fabric.status()["rdma_cm"]["listening"]


def exchange(fabric, server, client, seconds=60, status=0, at_server=0, servers=1, **environment):
    """A server on host1 and a client on host0, both to their ends; their outputs."""
    for program in (server[0], client[0]):
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")
    before = listeners(fabric)
    program = fabric.start("host1", server, **environment)
    try:
        wait_for(lambda: listeners(fabric) >= before + servers or program.poll() is not None,
                 f"{server[0]} does not listen")
        got, output = fabric.run("host0", client, seconds=seconds, **environment)
        check(got == status, f"{' '.join(client)}: status {got}, not {status}\n{output}\nserver:\n{program.output()}")
        if at_server is not None:
            ended = program.wait(20)
            check(ended == at_server, f"{' '.join(server)}: status {ended}\n{program.output()}\nclient:\n{output}")
        return output, program.output()
    finally:
        program.stop()


def again(race, attempt, tries=5):
    """What `attempt` gives, where `race` in its failure names one that the programs have between themselves."""
    for _ in range(tries - 1):
        try:
            return attempt()
        except Mismatch as fault:
            if race not in str(fault):
                raise
    return attempt()


def nothing_is_left(fabric):
    def empty():
        counts = fabric.status()["rdma_cm"]
        return not any(counts[name] for name in ("files", "ids", "events", "multicasts", "connections"))
    wait_for(empty, f"left behind: {fabric.status()['rdma_cm']}", 10)


# -- the programs of rdmacm-utils and ibverbs

def rping_carries_data(fabric):
    for address in (ADDRESS, LOOPBACK):
        server = ["rping", "-s", "-a", address["host1"], "-v", "-V", "-C", "5", "-S", "100"]
        client = ["rping", "-c", "-a", address["host1"], "-v", "-V", "-C", "5", "-S", "100"]
        output, _ = exchange(fabric, server, client, at_server=None)
        check(output.count("ping data: rdma-ping-") == 5, output)


def rping_on_ipv6(fabric):
    if fabric.link_layer == "ethernet":
        raise Skip("on Ethernet only link-local addresses are IPv6, and they want an interface")
    server = ["rping", "-s", "-a", IPV6["host1"], "-C", "2"]
    exchange(fabric, server, ["rping", "-c", "-a", IPV6["host1"], "-C", "2"], at_server=None)


def rping_server_stays_for_many(fabric):
    before = listeners(fabric)
    server = fabric.start("host1", ["rping", "-s", "-P", "-a", ADDRESS["host1"], "-v"])
    try:
        wait_for(lambda: listeners(fabric) > before, "rping does not listen")
        for _ in range(3):
            got, output = fabric.run("host0", ["rping", "-c", "-a", ADDRESS["host1"], "-C", "3", "-v"])
            check(got == 0 and output.count("ping data") == 3, output)
        check(server.poll() is None, f"the server ended: {server.output()}")
    finally:
        server.stop()


def ucmatose_transfers_and_leaves(fabric):
    output, served = exchange(fabric, ["ucmatose", "-c", "4"], ["ucmatose", "-s", ADDRESS["host1"], "-c", "4"])
    for text in (output, served):
        check("data transfers complete" in text and "return status 0" in text, text)


def udaddy_finds_its_peer(fabric):
    output, served = exchange(fabric, ["udaddy"], ["udaddy", "-s", ADDRESS["host1"]])
    for text in (output, served):
        check("data transfers complete" in text and "return status 0" in text, text)


def mckey_reaches_the_group(fabric):
    receiver = fabric.start("host1", ["mckey", "-m", "239.1.2.3", "-b", ADDRESS["host1"], "-C", "5"])
    try:
        wait_for(lambda: fabric.status()["rdma_cm"]["multicasts"] == 1, "the receiver does not join")
        time.sleep(1)
        got, output = fabric.run("host0", ["mckey", "-m", "239.1.2.3", "-b", ADDRESS["host0"], "-s", "-C", "5"])
        check(got == 0, output)
        check(receiver.wait(20) == 0, receiver.output())
        check("return status 0" in receiver.output(), receiver.output())
    finally:
        receiver.stop()


def cmtime_measures_each_step(fabric):
    output, _ = exchange(fabric, ["cmtime", "-b", ADDRESS["host1"]],
                         ["cmtime", "-s", ADDRESS["host1"], "-c", "50"], at_server=None)
    for step in ("create id", "resolve addr", "resolve route", "connect", "disconnect", "destroy"):
        check(step in output, output)


def a_thousand_connect_at_once(fabric, seconds=240):
    """All have asked before one is answered, and each is."""
    got, output = fabric.run("host0", ["cmtime", "-s", ADDRESS["host1"], "-c", "1000"], seconds=seconds)
    check(got == 0 and "destroy" in output and "error" not in output and "fail" not in output, f"{got}\n{output}")
    return output


def held(fabric, server):
    """What could leak, at softibd and at the listening program, which is there for all rounds; kB of their memory."""
    status = fabric.status()
    held_now = {"objects": status["objects"], "rdma_cm": status["rdma_cm"]}
    memory = {}
    for name, pid in (("softibd", fabric.daemon_pid()), ("server", server)):
        held_now[f"descriptors of {name}"] = len(os.listdir(f"/proc/{pid}/fd"))
        memory[name] = int(re.search(r"RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])
    return held_now, memory


def thousands_leave_nothing_behind(fabric):
    """A thousand connections, twenty times, to one listener. What the first two rounds leave is the programs' own:
    cmtime gives all queue pairs the completion queues of its first one, and these stay."""
    before = listeners(fabric)
    server = fabric.start("host1", ["cmtime", "-b", ADDRESS["host1"]])
    try:
        wait_for(lambda: listeners(fabric) > before, "cmtime does not listen")
        pid = fabric.status()["processes"][0]["pid"]
        after = {}
        for number in range(20):
            output = a_thousand_connect_at_once(fabric)
            check("fail" not in server.output(), server.output())
            if number not in (1, 19):
                continue
            wait_for(lambda: all(fabric.status()["rdma_cm"][name] == 0 for name in ("connections", "timewait")),
                     f"left: {fabric.status()['rdma_cm']}", 60)
            after[number] = held(fabric, pid)
            print(f"      round {number + 1}: {after[number]}\n" + re.search("connect .*", output)[0], flush=True)
        check(after[1][0] == after[19][0], f"{after[1][0]}\n{after[19][0]}")
        grown = {name: after[19][1][name] - after[1][1][name] for name in after[1][1]}
        most = 18 * 1000 * 64 // 1024  # 64 bytes for each connection, less than any record of one
        check(all(kilobytes < most for kilobytes in grown.values()), f"grown by {grown} kB")
    finally:
        server.stop()
    nothing_is_left(fabric)


def rdma_client_and_server(fabric):
    output, served = exchange(fabric, ["rdma_server"], ["rdma_client", "-s", ADDRESS["host1"]])
    check("rdma_client: end 0" in output, output)
    check("rdma_server: end 0" in served, served)


def rdma_xclient_and_xserver(fabric):
    exchange(fabric, ["rdma_xserver"], ["rdma_xclient", "-s", ADDRESS["host1"]])


# -- sockets over RDMA

def rstream_in_all_its_ways(fabric):
    """Both ends are to be told the same, except where it is about one's own end."""
    common = ["rstream", "-S", "65536", "-C", "10", "-I", "2"]
    for how in ("a", "b", "n", "r", "v"):
        # A client that polls, and finds that the server has left beside the last data, takes that for a failure.
        output, served = again("status 16, not 0", lambda how=how: exchange(
            fabric, [*common, "-T", how], [*common, "-T", how, "-s", ADDRESS["host1"]]))
        check("custom    64k" in output and "custom    64k" in served, output + served)


def rstream_by_tcp(fabric):
    """What the same programs do without RDMA; it needs an address that TCP has, too."""
    for how in ("s", "f"):
        port = free_port()
        common = ["rstream", "-S", "65536", "-C", "10", "-I", "2", "-p", str(port)]
        server = fabric.start("host1", [*common, "-T", how, "-b", LOOPBACK["host1"]])
        try:
            wait_for(lambda: is_listening(port) or server.poll() is not None, "rstream does not listen")
            got, output = fabric.run("host0", [*common, "-T", how, "-s", LOOPBACK["host1"]])
            check(got == 0 and "custom    64k" in output, output + server.output())
        finally:
            server.stop()


def riostream_writes_into_the_other_memory(fabric):
    common = ["riostream", "-S", "65536", "-C", "10", "-I", "2"]
    for how in ("a", "b", "n", "v"):
        output, served = again("status 16, not 0", lambda how=how: exchange(
            fabric, [*common, "-T", how], [*common, "-T", how, "-s", ADDRESS["host1"]]))
        check("custom    64k" in output and "custom    64k" in served, output + served)


def udpong_gets_its_datagrams_back(fabric, ways=("b",)):
    """rsockets for datagrams ask UDP for the way and the other's queue pair: over ib0, with the same addresses."""
    need_namespaces(fabric)
    common = ["udpong", "-S", "1000", "-C", "500"]
    for how in ways:
        server = fabric.start("host1", ["udpong", "-b", ADDRESS["host1"], "-T", how])
        try:
            output = echoed(fabric, [*common, "-T", how, "-s", ADDRESS["host1"]])
            check(re.search("custom +1000 ", output), f"{output}\nserver:\n{server.output()}")
        finally:
            server.stop()


def udpong_in_all_its_ways(fabric):
    udpong_gets_its_datagrams_back(fabric, ("a", "n", "e", "s"))


def echoed(fabric, client, tries=3):
    """Up to librdmacm 44, rpoll() waits for ever once a time-out has run out between two of its steps, which takes no
    more than a millisecond without a core: udpong then never ends, on any device."""
    for _ in range(tries):
        got, output = fabric.run("host0", client, seconds=15)
        if got is not None:
            check(got == 0, output)
            return output
    raise Mismatch(f"{client} does not end")


def rcopy_copies_files(fabric):
    """Also one of several MiB, and one of none; the server stays."""
    folder = pathlib.Path(fabric.folder)
    before = listeners(fabric)
    server = fabric.start("host1", ["rcopy"])
    try:
        wait_for(lambda: listeners(fabric) > before, "rcopy does not listen")
        for size in (1, 4097, (7 << 20) + 13):
            source, copy = folder / "source", folder / f"copy-{size}"
            source.write_bytes(os.urandom(size))
            got, output = fabric.run("host0", ["rcopy", str(source), f"{ADDRESS['host1']}:{copy}"])
            check(got == 0, f"{output}\nserver:\n{server.output()}")
            check(filecmp.cmp(source, copy, shallow=False), f"{size} bytes: the copy differs")
        check(server.poll() is None, f"the server ended: {server.output()}")
    finally:
        server.stop()


def rsocket_preload():
    found = sorted(pathlib.Path("/usr/lib").glob("**/rsocket/librspreload.so"))
    if not found:
        raise Skip("librspreload.so is not installed")
    return str(found[0])


def a_tcp_program_on_rsockets(fabric):
    """netcat, which knows nothing of RDMA: librspreload turns its sockets into rsockets, and comes before ours."""
    source = pathlib.Path(fabric.folder) / "source"
    source.write_bytes(os.urandom((3 << 20) + 7))
    client = f"nc.traditional -q 1 {ADDRESS['host1']} 5566 <{source}"
    copy = pathlib.Path(fabric.folder) / "copy"
    if not shutil.which("nc.traditional"):
        raise Skip("nc.traditional is not installed")
    exchange(fabric, ["sh", "-c", f"exec nc.traditional -l -p 5566 >{copy}"], ["sh", "-c", client],
             LD_PRELOAD=rsocket_preload())
    check(filecmp.cmp(source, copy, shallow=False), "the copy differs")


def iperf_on_rsockets(fabric):
    output, _ = exchange(fabric, ["iperf", "-s", "-P", "1"], ["iperf", "-c", ADDRESS["host1"], "-n", "64M"],
                         at_server=None, LD_PRELOAD=rsocket_preload())
    check("64.0 MBytes" in output, output)


def rstream_of_all_sizes(fabric):
    """Twice 33 sizes, 24 GB in all; its ends poll, so it wants two cores for itself."""
    common = ["rstream", "-S", "all"]
    output, served = exchange(fabric, common, [*common, "-s", ADDRESS["host1"]], seconds=600)
    for text in (output, served):
        check("64_lat" in text and "6m_lat" in text and "6m_bw" in text, text)


# -- perftest

PERFTEST = [["ib_send_bw"], ["ib_send_lat"], ["ib_write_bw"], ["ib_write_lat"], ["ib_read_bw"], ["ib_read_lat"],
            ["ib_atomic_bw"], ["ib_atomic_lat"], ["ib_send_bw", "-c", "UD"], ["ib_send_lat", "-c", "UD"]]
PERFTEST_MORE = [["ib_write_bw", "-z"], ["ib_send_bw", "-b"], ["ib_send_lat", "-e"], ["ib_write_bw", "-q", "4"],
                 ["ib_read_bw", "-b", "-q", "2"], ["ib_send_bw", "-c", "UD", "-b"], ["ib_send_bw", "-r", "16", "-a"]]
PERFTEST_REFUSED = [["ib_send_bw", "-c", "UC"], ["ib_write_lat", "-c", "UC"], ["ib_send_bw", "-c", "XRC"],
                    ["raw_ethernet_bw"]]


def perftest_meets_by_rdma_cm(fabric):
    """On Ethernet one for each kind of operation; the others with --full."""
    for number, command in enumerate(PERFTEST if fabric.link_layer == "infiniband" else PERFTEST[::2]):
        meet(fabric, [*command, "-R", "-F", "-n", "20", "-p", str(18515 + number)])


def perftest_in_other_ways(fabric):
    for number, command in enumerate(PERFTEST_MORE + (PERFTEST[1::2] if fabric.link_layer == "ethernet" else [])):
        meet(fabric, [*command, "-R", "-F", "-n", "20", "-p", str(18615 + number)])


def perftest_itself_refuses_the_rest(fabric):
    """So that it is known when that changes: UC, XRC and raw packets are left out by perftest, not by us."""
    for command in PERFTEST_REFUSED:
        got, output = fabric.run("host0", [*command, "-R", ADDRESS["host1"]])
        check(got == 1 and ("support" in output), f"{command}: {output}")


def meet(fabric, common):
    """perftest connects twice, and its server listens anew in between: its client may come too early."""
    again("RDMA_CM_EVENT_REJECTED; error: 8",
          lambda: exchange(fabric, common, [*common, ADDRESS["host1"]], seconds=120))


# -- what goes wrong

def an_address_that_no_host_has(fabric):
    began = time.monotonic()
    got, output = fabric.run("host0", ["rping", "-c", "-a", "10.0.77.77", "-C", "1"])
    check(got != 0 and "RDMA_CM_EVENT_ADDR_ERROR, error -110" in output, output)
    check(time.monotonic() - began > 1.9, "it was given up before its time")
    got, output = fabric.run("host0", ["rping", "-c", "-a", "192.0.2.1", "-C", "1"])
    check(got != 0 and "rdma_resolve_addr: Network is unreachable" in output, output)


def all_answers_are_the_kernels(fabric):
    """Commands in and out of order, and the events that follow, with no library in between."""
    program = pathlib.Path(fabric.softib).parent / "cm_answers"
    if not program.exists():
        raise Skip("cm_answers is not built")
    got, output = fabric.run("host1", [str(program), ADDRESS["host1"], "10.0.77.77"], seconds=120)
    check(got == 0, output)
    expected = KERNEL_SAYS.read_text().partition("\n")[2]  # behind the title
    if fabric.link_layer == "infiniband":
        expected = re.sub("(resolve_addr for IPoIB +).*", r"\1ADDR_RESOLVED 0", expected)
    difference = "\n".join(difflib.unified_diff(expected.splitlines(), output.splitlines(), "kernel", "here", n=1))
    check(not difference, difference)


def the_library_waits_as_on_the_kernel(fabric):
    """Names, events that nobody acknowledges, channels that are closed early."""
    here = pathlib.Path(__file__).resolve().parent
    got, output = fabric.run("host1", [sys.executable, str(here / "cm_library.py"), ADDRESS["host1"]])
    check(got == 0 and output == (here / "cm_library.txt").read_text(), f"status {got}\n{output}")


def a_host_that_dies_before_it_is_asked(fabric):
    if fabric.link_layer == "ethernet":
        raise Skip("no faults on Ethernet")
    program = str(pathlib.Path(fabric.softib).parent / "cm_answers")
    asker = fabric.start_talking("host0", [program, ADDRESS["host0"], "10.0.77.77", "--long", ADDRESS["host1"]])
    try:
        lines = [asker.process.stdout.readline() for _ in range(4)]
        check("ROUTE_RESOLVED 0" in lines[-1], lines)
        check(fabric.call("host", "host1", "kill").returncode == 0, "host1 can't be killed")
        began = time.monotonic()
        check(asker.ask("go on").split()[-1] == "ok", "connect fails at once")
        check(asker.process.stdout.readline().split() == ["UNREACHABLE", "-110"], "another event")
        check(time.monotonic() - began > 60, "it was given up before its time")
    finally:
        asker.stop()
        fabric.call("host", "host1", "on")
        all_ports_come_up(fabric)


def loopback_is_the_host_itself(fabric):
    """As in the kernel, which takes loopback addresses for the wildcard: libfabric finds its HCAs so."""
    before = listeners(fabric)
    server = fabric.start("host0", ["rping", "-s", "-a", "127.0.0.1"])
    try:
        wait_for(lambda: listeners(fabric) > before, "rping does not listen")
        got, output = fabric.run("host0", ["rping", "-c", "-a", "127.0.0.1", "-C", "3", "-v"])
        check(got == 0 and output.count("ping data") == 3, output)
        check(server.wait(10) == 0, server.output())
    finally:
        server.stop()


def a_port_that_nobody_listens_on(fabric):
    got, output = fabric.run("host0", ["rping", "-c", "-a", ADDRESS["host1"], "-p", "4444", "-C", "1"])
    check(got != 0 and "RDMA_CM_EVENT_REJECTED, error 8" in output, output)


def an_address_in_use(fabric):
    before = listeners(fabric)
    first = fabric.start("host1", ["rping", "-s", "-a", ADDRESS["host1"], "-P"])
    try:
        wait_for(lambda: listeners(fabric) > before, "rping does not listen")
        got, output = fabric.run("host1", ["rping", "-s", "-a", ADDRESS["host1"]])
        check(got != 0 and "Address already in use" in output, output)
        got, output = fabric.run("host1", ["rping", "-s", "-a", ADDRESS["host0"]])
        check(got != 0 and "Cannot assign requested address" in output, output)
    finally:
        first.stop()


def a_program_that_dies_takes_its_connections_along(fabric):
    before = listeners(fabric)
    server = fabric.start("host1", ["rping", "-s", "-P", "-a", ADDRESS["host1"]])
    client = None
    try:
        wait_for(lambda: listeners(fabric) > before, "rping does not listen")
        client = fabric.start("host0", ["rping", "-c", "-a", ADDRESS["host1"], "-v", "-C", "1000000"])
        time.sleep(1)
        server.stop()
        check(client.wait(30) is not None, f"the client goes on: {client.output()[-500:]}")
        check("DISCONNECT EVENT" in client.output(), client.output()[-500:])
    finally:
        server.stop()
        if client:
            client.stop()


def all_ports_come_up(fabric):
    wait_for(lambda: all(port["state"] == "ACTIVE" for host in fabric.status()["hosts"]
                         for device in host["devices"] for port in device["ports"]), "a port does not come back")


def a_host_that_died(fabric):
    if fabric.link_layer == "ethernet":
        raise Skip("no faults on Ethernet")
    before = listeners(fabric)
    # Who waits for the other's message, as rping does half of the time, would not notice on hardware either.
    stream = ["ib_write_bw", "-R", "-D", "30", "-s", "4096"]
    server = fabric.start("host1", stream)
    client = None
    try:
        wait_for(lambda: listeners(fabric) > before, "ib_write_bw does not listen")
        client = fabric.start("host0", [*stream, ADDRESS["host1"]])
        wait_for(lambda: fabric.status()["rdma_cm"]["connections"] >= 2, "no connection")
        check(fabric.call("host", "host1", "kill").returncode == 0, "host1 can't be killed")
        check(client.wait(60) not in (0, None), f"the client hangs, or noticed nothing\n{client.output()}")
        got, output = fabric.run("host0", ["rping", "-c", "-a", ADDRESS["host1"], "-C", "1"])
        check(got != 0 and "RDMA_CM_EVENT_ADDR_ERROR, error -110" in output, output)
    finally:
        server.stop()
        if client:
            client.stop()
        fabric.call("host", "host1", "on")
    all_ports_come_up(fabric)
    ucmatose_transfers_and_leaves(fabric)


def an_hca_that_is_pulled_out(fabric):
    """What each program that has it open is told, who finds it afterwards, and that all is well when it is back."""
    if fabric.link_layer == "ethernet":
        raise Skip("no faults on Ethernet")
    before = listeners(fabric)
    stream = ["ib_write_bw", "-R", "-D", "30", "-s", "4096"]
    programs = [fabric.start("host1", words) for words in
                (["rping", "-s", "-a", ADDRESS["host1"]], stream, ["ibv_asyncwatch"])]
    server, _, watcher = programs
    try:
        wait_for(lambda: listeners(fabric) >= before + 2 and "async event FD" in watcher.output(),
                 "programs don't start")
        programs.append(fabric.start("host0", ["rping", "-c", "-a", ADDRESS["host1"], "-C", "1000000"]))
        client = fabric.start("host0", [*stream, ADDRESS["host1"]])
        programs.append(client)
        wait_for(lambda: fabric.status()["rdma_cm"]["connections"] >= 4, "no connections")
        check(fabric.call("hca", "host1/mlx5_0", "remove").returncode == 0, "it can't be removed")
        wait_for(lambda: "DEVICE_FATAL" in watcher.output(), f"ibv_asyncwatch was told {watcher.output()}")
        wait_for(lambda: "device removal" in server.output(), f"rping was told {server.output()}")
        check(client.wait(60) not in (0, None), f"the client hangs, or noticed nothing\n{client.output()}")
        check(fabric.run("host1", ["ibv_devinfo"])[0] != 0, "it is still listed")
        check(fabric.run("host1", ["ls", "/dev/infiniband"])[1] == "rdma_cm\n", "its device nodes are still there")
        check(fabric.status()["faults"] == [{"what": "hca host1/mlx5_0", "fault": "removed"}], "status")
        got, output = fabric.run("host1", ["rping", "-s", "-a", ADDRESS["host1"]])
        check(got != 0 and "No RDMA devices were detected" in output, output)
    finally:
        for program in programs:
            program.stop()
        fabric.call("hca", "host1/mlx5_0", "add")
    all_ports_come_up(fabric)
    ucmatose_transfers_and_leaves(fabric)


LIMITED = """
hosts: 2
partitions: |
  Default=0x7fff : ALL=limited ;
"""


def limited_members_do_not_hear_each_other(fabric):
    got, output = fabric.run("host0", ["rping", "-c", "-a", ADDRESS["host1"], "-C", "1"])
    check(got != 0 and "RDMA_CM_EVENT_ADDR_ERROR, error -110" in output, output)


CASES = [rping_carries_data, rping_on_ipv6, rping_server_stays_for_many, ucmatose_transfers_and_leaves,
         udaddy_finds_its_peer, mckey_reaches_the_group, cmtime_measures_each_step, rdma_client_and_server,
         all_answers_are_the_kernels, the_library_waits_as_on_the_kernel, an_address_that_no_host_has,
         loopback_is_the_host_itself, a_port_that_nobody_listens_on, an_address_in_use,
         a_program_that_dies_takes_its_connections_along, a_host_that_died, an_hca_that_is_pulled_out,
         rcopy_copies_files, a_tcp_program_on_rsockets, perftest_meets_by_rdma_cm, nothing_is_left]
FULL = [rdma_xclient_and_xserver, rstream_in_all_its_ways, rstream_by_tcp, riostream_writes_into_the_other_memory,
        iperf_on_rsockets, perftest_in_other_ways, perftest_itself_refuses_the_rest, rstream_of_all_sizes,
        a_host_that_dies_before_it_is_asked, thousands_leave_nothing_behind]


def on_hosts_of_their_own(suite):
    cases = [udpong_gets_its_datagrams_back] + ([udpong_in_all_its_ways] if suite.arguments.full else [])
    cases = suite.chosen(cases)
    if not cases:
        return
    fabric = Fabric(suite.arguments.softib)
    fabric.environment.pop("SOFTIB_NAMESPACES")
    with fabric:
        suite.run_each(cases, fabric)


def main():
    parser = new_parser(__doc__)
    parser.add_argument("--full", action="store_true", help="also what takes minutes")
    parser.add_argument("--link-layer", choices=("infiniband", "ethernet"), help="one only")
    suite = Suite(parser)
    cases = suite.chosen(CASES + (FULL if suite.arguments.full else []))
    layers = [suite.arguments.link_layer] if suite.arguments.link_layer else ["infiniband", "ethernet"]
    for layer in layers:
        with Fabric(suite.arguments.softib, link_layer=layer) as fabric:
            print(f"-- {layer}", flush=True)
            for case in cases:
                report(case, fabric, suite.totals)
    if "infiniband" in layers:
        on_hosts_of_their_own(suite)
        suite.on(LIMITED, [limited_members_do_not_hear_each_other])
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
