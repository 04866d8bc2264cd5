#!/usr/bin/env python3
"""Connections by rdma_cm: the programs that come with librdmacm, perftest with -R, sockets over RDMA, what goes wrong.

Every case runs on both link layers. --full adds those that take minutes: time-outs of the protocol, thousands of
connections.
"""

import sys
import time

from softib_fabric import Fabric
from suite import Mismatch, Skip, Suite, check, new_parser, report, wait_for

ADDRESS = {"host0": "10.0.0.1", "host1": "10.0.0.2"}
LOOPBACK = {"host0": "127.64.0.1", "host1": "127.64.0.2"}
IPV6 = {"host0": "fd53:4942::1", "host1": "fd53:4942::2"}


def listeners(fabric):
    return fabric.status()["rdma_cm"]["listening"]


def exchange(fabric, server, client, seconds=60, status=0, at_server=0, servers=1):
    """A server on host1 and a client on host0, both to their ends; their outputs."""
    before = listeners(fabric)
    program = fabric.start("host1", server)
    try:
        wait_for(lambda: listeners(fabric) >= before + servers or program.poll() is not None,
                 f"{server[0]} does not listen")
        got, output = fabric.run("host0", client, seconds=seconds)
        check(got == status, f"{' '.join(client)}: status {got}, not {status}\n{output}\nserver:\n{program.output()}")
        if at_server is not None:
            ended = program.wait(20)
            check(ended == at_server, f"{' '.join(server)}: status {ended}\n{program.output()}\nclient:\n{output}")
        return output, program.output()
    finally:
        program.stop()


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


def a_thousand_connect_at_once(fabric):
    exchange(fabric, ["cmtime", "-b", ADDRESS["host1"]], ["cmtime", "-s", ADDRESS["host1"], "-c", "1000"],
             seconds=240, at_server=None)


def thousands_leave_nothing_behind(fabric):
    objects = fabric.status()["objects"]
    for _ in range(20):
        a_thousand_connect_at_once(fabric)
    nothing_is_left(fabric)
    wait_for(lambda: fabric.status()["objects"] == objects, f"objects left: {fabric.status()['objects']}")


def rdma_client_and_server(fabric):
    output, served = exchange(fabric, ["rdma_server"], ["rdma_client", "-s", ADDRESS["host1"]])
    check("rdma_client: end 0" in output, output)
    check("rdma_server: end 0" in served, served)


def rdma_xclient_and_xserver(fabric):
    exchange(fabric, ["rdma_xserver"], ["rdma_xclient", "-s", ADDRESS["host1"]])


def sockets_over_rdma(fabric):
    for program in (["rstream"], ["riostream"]):
        output, _ = exchange(fabric, program, [*program, "-s", ADDRESS["host1"], "-S", "4096", "-C", "20", "-I", "1"],
                             at_server=None)
        check("custom" in output and "4k" in output, output)


# -- perftest

def perftest_meets_by_rdma_cm(fabric):
    for name in ("ib_write_bw", "ib_read_lat", "ib_send_bw", "ib_send_lat", "ib_atomic_bw", "ib_write_lat"):
        port = str(18515 + len(name))
        common = [name, "-R", "-F", "-n", "50", "-p", port]
        meet(fabric, common)


def meet(fabric, common, tries=3):
    """perftest connects twice, and its server listens anew in between: its client may come too early."""
    try:
        exchange(fabric, common, [*common, ADDRESS["host1"]])
    except Mismatch as fault:
        if tries == 1 or "RDMA_CM_EVENT_REJECTED; error: 8" not in str(fault):
            raise
        meet(fabric, common, tries - 1)


# -- what goes wrong

def an_address_that_no_host_has(fabric):
    began = time.monotonic()
    got, output = fabric.run("host0", ["rping", "-c", "-a", "10.0.77.77", "-C", "1"])
    check(got != 0 and "RDMA_CM_EVENT_ADDR_ERROR, error -110" in output, output)
    check(time.monotonic() - began > 1.9, "it was given up before its time")
    got, output = fabric.run("host0", ["rping", "-c", "-a", "192.0.2.1", "-C", "1"])
    check(got != 0 and "RDMA_CM_EVENT_ADDR_ERROR, error -101" in output, output)


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
    wait_for(lambda: all(port["state"] == "ACTIVE" for host in fabric.status()["hosts"]
                         for device in host["devices"] for port in device["ports"]), "host1 does not come back")
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
         an_address_that_no_host_has, loopback_is_the_host_itself, a_port_that_nobody_listens_on, an_address_in_use,
         a_program_that_dies_takes_its_connections_along, a_host_that_died, perftest_meets_by_rdma_cm, nothing_is_left]
FULL = [sockets_over_rdma, rdma_xclient_and_xserver, thousands_leave_nothing_behind]


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
        suite.on(LIMITED, [limited_members_do_not_hear_each_other])
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
