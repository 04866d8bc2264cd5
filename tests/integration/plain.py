#!/usr/bin/env python3
"""Hosts without namespaces, as on a machine that allows none: what works there, started as on hosts that have them.

    plain.py [--softib PATH] [--filter REGEX]

The suites data_path, rdma_cm, middleware and examples run in this mode too; here is what depends on where programs are
started and by which names they meet.
"""

import re
import sys

from examples import echo_by_rdma_cm, write_with_immediate
from hosts import a_command_is_itself, need, same, several_hosts_at_once, tcp_connects_by_name
from launching import (FROM_HOST, FROM_MACHINE, MPICH, OPEN_MPI, OVER_TCP, OVER_UCX, Shells, collectives, end_of_job,
                       interrupt, kill_launcher, kill_rank, ranks_on_both_hosts)
from middleware import perftest
from rdma_cm import exchange
from softib_fabric import free_port, wait_listening
from suite import Skip, Suite, check, new_parser, run


def names_lead_to_loopback(places):
    same(places.text("host1", "hostname"), "host1", "hostname")
    same(places.text("host0", "getent", "hosts", "host1").split()[:2], ["127.64.0.2", "host1"], "getent")
    probe = "import socket as s; " \
            "print(s.gethostname(), s.gethostbyname('host1'), s.gethostbyaddr('127.64.0.2')[0], " \
            "s.getnameinfo(('127.64.0.1', 80), s.NI_NUMERICSERV)[0], s.getaddrinfo('host1-ib0', 80)[0][4][0])"
    same(places.text("host0", sys.executable, "-c", probe), "host0 127.64.0.2 host1 host0 127.64.0.2", "names")
    check(not list(places.directory().glob("places*")), "a socket of the keeper's")


def to_server(places, server, client):
    """A server on host0 that listens with TCP on the port given by its option -p, and its client on host1."""
    need(server[0])
    port = str(free_port())
    program = places.start("host0", [*server, "-p", port])
    try:
        check(wait_listening(program, int(port)), f"{server[0]} does not listen: {program.output()}")
        output = run(places, "host1", *client, "-p", port, "host0")
        check(program.wait(20) == 0, program.output())
        return output
    finally:
        program.stop()


def verbs_programs_meet_by_name(places):
    output = to_server(places, ["ibv_rc_pingpong", "-e"], ["ibv_rc_pingpong", "-e"])
    check("bytes in" in output, output)


def rdma_cm_programs_meet_by_name(places):
    need("rping", "ib_write_bw")
    output, _ = exchange(places, ["rping", "-s", "-C", "3"], ["rping", "-c", "-a", "host1", "-C", "3", "-v"],
                         at_server=None)
    same(output.count("ping data: rdma-ping-"), 3, "pings")
    options = ["-R", "-F", "-n", "100"]
    output, _ = exchange(places, ["ib_write_bw", *options], ["ib_write_bw", *options, "host1"])
    check(re.search(r"^ 65536 +100 ", output, re.M), output)


def ucx_sends(places):
    check(perftest(places, "rc_v", "-t", "tag_lat", "-n", "500", "-w", "10")[0] == 500, "ucx_perftest's count")


def pingpong(places, *options, environment=()):
    need("fi_pingpong")
    words = ["env", *environment, "fi_pingpong", "-I", "50", "-S", "1024", *options]
    port = free_port()
    server = places.start("host0", [*words, "-B", str(port)])
    try:
        check(wait_listening(server, port), f"fi_pingpong does not listen: {server.output()}")
        status, output = places.run("host1", [*words, "-P", str(port), "host0"])
        if "No data available" in output + server.output():
            raise Skip(f"{' '.join(options)}: goes by the addresses of interfaces, which hosts don't have in this mode")
        check(status == 0 and re.search(r"^1k +50 +=50 ", output, re.M), f"status {status}\n{output}")
    finally:
        server.stop()


def libfabric_messages(places):
    pingpong(places, "-p", "verbs", "-e", "msg")


def libfabric_reliable_datagrams(places):
    pingpong(places, "-p", "verbs;ofi_rxm", "-e", "rdm", environment=["FI_OFI_RXM_USE_SRX=1"])


def jobs_from_a_host_and_from_the_machine(places):
    for launcher in (OPEN_MPI, MPICH):
        for where in (FROM_HOST, FROM_MACHINE):
            ranks_on_both_hosts(places, launcher, where)


def collective_operations(places):
    for options in (OVER_UCX, OVER_TCP):
        collectives(places, OPEN_MPI, FROM_HOST, 2, options)
    collectives(places, MPICH, FROM_HOST, 2, ["-genv", "UCX_TLS", "ud_v,self"])


def jobs_end_as_a_whole(places):
    for launcher, where, end in ((MPICH, FROM_HOST, kill_rank), (MPICH, FROM_MACHINE, interrupt),
                                 (OPEN_MPI, FROM_HOST, kill_launcher)):
        end_of_job(places, launcher, where, end)


CASES = (names_lead_to_loopback, a_command_is_itself, several_hosts_at_once, tcp_connects_by_name,
         verbs_programs_meet_by_name, rdma_cm_programs_meet_by_name, write_with_immediate, echo_by_rdma_cm, ucx_sends,
         libfabric_messages, libfabric_reliable_datagrams, jobs_from_a_host_and_from_the_machine, collective_operations,
         jobs_end_as_a_whole)


def main():
    suite = Suite(new_parser(__doc__))
    with Shells(suite.arguments.softib, "--namespaces", "off") as places:
        same(places.status()["namespaces"]["kind"], "plain", "what hosts are")
        suite.run_each(suite.chosen(CASES), places)
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
