#!/usr/bin/env python3
"""Message libraries over the virtual HCA: UCX and libfabric. launching.py has MPI over both.

    middleware.py [--softib PATH] [--filter REGEX]

Prints PASS, FAIL or SKIP for each case, and a total line.
"""

import contextlib
import re
import shutil
import sys

from softib_fabric import Fabric, free_port, wait_listening
from suite import Skip, Suite, check, need_namespaces, new_parser, run, wait_for

SERVER = "localhost"  # where a server on host0 listens with TCP
TRANSPORTS = ("rc_v", "ud_v")


def perftest(fabric, transport, *options):
    """The numbers of ucx_perftest's last line, run from host1 to host0."""
    if not shutil.which("ucx_perftest"):
        raise Skip("ucx_perftest is not installed")
    port = free_port()
    tls = f"{transport},self"
    server = fabric.start("host0", ["ucx_perftest", "-p", str(port)], UCX_TLS=tls)
    try:
        check(wait_listening(server, port), f"the server does not listen: {server.output()}")
        status, output = fabric.run("host1", ["ucx_perftest", SERVER, "-p", str(port), *options], UCX_TLS=tls)
        check(status == 0 and "ERROR" not in output, f"{' '.join(options)} over {transport}: status {status}\n{output}")
        check(server.wait(10) == 0, f"the server: {server.output()}")
        return [float(word) for word in output.split("Final:")[1].split("\n")[0].split()]
    finally:
        server.stop()


def on_both(fabric, test, size, count):
    for transport in TRANSPORTS:
        numbers = perftest(fabric, transport, "-t", test, "-s", str(size), "-n", str(count), "-w", "10")
        check(numbers[0] == count and all(number > 0 for number in numbers[-2:]), f"{test} over {transport}: {numbers}")


def ucx_lists_the_device(fabric):
    listed = run(fabric, "host0", "ucx_info", "-d")
    for transport in ("rc_verbs", "ud_verbs"):
        check(re.search(rf"Transport: {transport}\n#\s+Device: mlx5_0:1", listed), f"no {transport}:\n{listed}")
    check("ERROR" not in listed, listed)


def ucx_sends_tagged_messages(fabric):
    on_both(fabric, "tag_lat", 8, 500)
    on_both(fabric, "tag_bw", 1 << 20, 40)


def ucx_sends_a_stream(fabric):
    on_both(fabric, "stream_lat", 64, 500)


def ucx_sends_active_messages(fabric):
    on_both(fabric, "ucp_am_lat", 64, 500)


def ucx_writes_and_reads_remote_memory(fabric):
    on_both(fabric, "ucp_put_lat", 8, 500)
    on_both(fabric, "ucp_put_bw", 1 << 20, 40)
    on_both(fabric, "ucp_get", 4096, 50)


def ucx_has_atomics(fabric):
    for test in ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap"):
        on_both(fabric, test, 8, 50)


def registration_caches_see_what_a_program_unmaps(fabric):
    """UCX's hooks lie behind the preload library's wrappers, so both see each call."""
    listed = run(fabric, "host0", "env", "UCX_MEM_LOG_LEVEL=debug", "ucx_info", "-u", "t", "-e")
    check("mmap hooks are ready" in listed, f"UCX does not see what happens to memory:\n{listed}")


# -- libfabric ---------------------------------------------------------------------------------------------------------


def libfabric_lists_the_provider(fabric):
    listed = run(fabric, "host0", "fi_info", "-p", "verbs")
    for kind in ("FI_EP_MSG", "FI_EP_DGRAM"):
        check(re.search(rf"provider: verbs\n(?:    .*\n)*?    type: {kind}", listed), f"no {kind}:\n{listed}")


def pingpong(fabric, provider, endpoint, *environment):
    port = str(free_port())
    words = ["env", *environment, "fi_pingpong", "-p", provider, "-e", endpoint, "-I", "200", "-c"]
    server = fabric.start("host0", [*words, "-B", port])
    try:
        table = ["cat", "/proc/net/tcp", "/proc/net/tcp6"]  # of host0's own network
        wait_for(lambda: re.search(rf":{int(port):04X} \S+ 0A ", fabric.run("host0", table)[1]),
                 "the server does not listen")
        status, output = fabric.run("host1", [*words, "-P", port, "host0-ib0"])
        check(status == 0 and re.search(r"^1m +200 +=200 ", output, re.M), f"status {status}\n{output}")
        check(server.wait(10) == 0, server.output())
    finally:
        server.stop()


@contextlib.contextmanager
def hosts_with_interfaces(softib):
    """libfabric goes by the addresses of interfaces, which hosts have in namespaces only."""
    fabric = Fabric(softib)
    fabric.environment.pop("SOFTIB_NAMESPACES")
    with fabric:
        need_namespaces(fabric)
        yield fabric


def libfabric_messages(softib):
    """The verbs provider, and reliable datagrams that ofi_rxm makes of it."""
    if not shutil.which("fi_pingpong"):
        raise Skip("fi_pingpong is not installed")
    with hosts_with_interfaces(softib) as fabric:
        pingpong(fabric, "verbs", "msg")
        # Without shared receives libfabric's own mistake may end it with signal 11 (docs/message-libraries.md).
        pingpong(fabric, "verbs;ofi_rxm", "rdm", "FI_OFI_RXM_USE_SRX=1")


UCX = (ucx_lists_the_device, ucx_sends_tagged_messages, ucx_sends_a_stream, ucx_sends_active_messages,
       ucx_writes_and_reads_remote_memory, ucx_has_atomics, registration_caches_see_what_a_program_unmaps)


def main():
    suite = Suite(new_parser(__doc__))
    suite.on("hosts: 2\n", (*UCX, libfabric_lists_the_provider))
    suite.alone((libfabric_messages,))
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
