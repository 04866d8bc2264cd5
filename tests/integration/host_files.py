#!/usr/bin/env python3
"""What programs read of a host's files: sysfs trees made when they are wanted, counters in them, and the tools that
Debian lacks (ibdev2netdev, show_gids), compared with the fabric file and with the stock tools.

    host_files.py [--softib PATH] [--filter REGEX]

Prints PASS, FAIL or SKIP for each case, and a total line.
"""

import re
import sys

from management import TREE
from softib_fabric import free_port, wait_listening
from suite import check, described, main_of, need_namespaces, run

PAIR = """
fabric: default
hosts:
  - {name: alpha, hcas: [{name: mlx5_0, ports: [{guid: 0xa088c20300abcd01}, {guid: 0xa088c20300abcd02}]},
                         {name: mlx5_10, ports: [{guid: 0xa088c20300abcd10}]}]}
  - beta
cables: [[alpha/mlx5_0/1, sw0/1], [alpha/mlx5_10/1, sw0/2], [beta/mlx5_0/1, sw0/3]]
"""

ROCE = """
fabric: default
link_layer: ethernet
hosts:
  - {name: alpha, hcas: [{ports: [{address: 10.1.2.3}]}, {ports: [{address: 192.168.255.1}]}]}
  - beta
cables: [[alpha/mlx5_0/1, sw0/1], [beta/mlx5_0/1, sw0/2]]
"""

COUNTERS = "/sys/class/infiniband/mlx5_0/ports/1/counters/"

# sysfs' name: perfquery's in its extended form, or in its plain one.
EXTENDED = {"port_xmit_data": "PortXmitData", "port_rcv_data": "PortRcvData", "port_xmit_packets": "PortXmitPkts",
            "port_rcv_packets": "PortRcvPkts", "unicast_xmit_packets": "PortUnicastXmitPkts",
            "unicast_rcv_packets": "PortUnicastRcvPkts", "multicast_xmit_packets": "PortMulticastXmitPkts",
            "multicast_rcv_packets": "PortMulticastRcvPkts"}
PLAIN = {"symbol_error": "SymbolErrorCounter", "link_error_recovery": "LinkErrorRecoveryCounter",
         "link_downed": "LinkDownedCounter", "port_rcv_errors": "PortRcvErrors",
         "port_rcv_remote_physical_errors": "PortRcvRemotePhysicalErrors",
         "port_rcv_switch_relay_errors": "PortRcvSwitchRelayErrors", "port_xmit_discards": "PortXmitDiscards",
         "port_xmit_constraint_errors": "PortXmitConstraintErrors",
         "port_rcv_constraint_errors": "PortRcvConstraintErrors",
         "local_link_integrity_errors": "LocalLinkIntegrityErrors",
         "excessive_buffer_overrun_errors": "ExcessiveBufferOverrunErrors", "VL15_dropped": "VL15Dropped",
         "port_xmit_wait": "PortXmitWait"}


def tool(fabric, *argv, status=0):
    """One of our own, which only programs on a host have in their PATH."""
    got, output = fabric.run("alpha", list(argv))
    check(got == status, f"{' '.join(argv)}: status {got}\n{output}")
    return output


def fields_of(text):
    return {name: int(value) for name, value in re.findall(r"^(\w+):\.+(\d+)$", text, re.M)}


def sysfs_counters(fabric, host):
    text = run(fabric, host, "sh", "-c", f"cd {COUNTERS} && grep . *")
    return {name: int(value) for name, value in re.findall(r"^(\w+):(\d+)$", text, re.M)}


def write_traffic(fabric, server, client, count):
    port = free_port()
    command = ["ib_write_bw", "-d", "mlx5_0", "-F", "-p", str(port), "-s", "4096", "-n", str(count)]
    listening = fabric.start(server, command)
    try:
        check(wait_listening(listening, port), "the server didn't listen")
        run(fabric, client, *command, "127.0.0.1")
    finally:
        listening.stop()


# -- counters ----------------------------------------------------------------------------------------------------------


def sysfs_counts_what_perfquery_counts(softib):
    with described(softib, TREE) as fabric:
        write_traffic(fabric, "gamma", "alpha", 1000)
        for host in ("alpha", "gamma"):
            shown = sysfs_counters(fabric, host)
            check(shown.keys() == EXTENDED.keys() | PLAIN.keys(), f"{sorted(shown)}")
            wide = fields_of(run(fabric, host, "perfquery", "-x"))
            narrow = fields_of(run(fabric, host, "perfquery"))
            check(wide["PortXmitData"] > 0 and wide["PortRcvData"] > 0, f"no traffic: {wide}")
            for names, fields in ((EXTENDED, wide), (PLAIN, narrow)):
                for name, field in names.items():
                    check(shown[name] == fields[field], f"{host}: {name} {shown[name]}, {field} {fields[field]}")


def reading_counts_nothing_and_a_reset_shows(softib):
    with described(softib, TREE) as fabric:
        before = sysfs_counters(fabric, "alpha")
        check(sysfs_counters(fabric, "alpha") == before, "reading was counted")
        check(before["port_xmit_packets"] > 0, "the subnet manager has sent nothing")
        run(fabric, "alpha", "perfquery", "-x", "-R")
        check(sysfs_counters(fabric, "alpha")["port_xmit_packets"] == 0, "the reset does not show")


def a_monitor_that_keeps_its_files_open_sees_traffic(softib):
    program = f"""
import os, sys
files = {{name: os.open("{COUNTERS}" + name, os.O_RDONLY) for name in ("port_xmit_data", "port_rcv_data")}}
for line in sys.stdin:
    print(*(int(os.pread(file, 64, 0)) for file in files.values()), flush=True)
"""
    with described(softib, TREE) as fabric:
        monitor = fabric.start_talking("alpha", [sys.executable, "-c", program])
        try:
            first = monitor.ask("now")
            write_traffic(fabric, "beta", "alpha", 1000)
            second = monitor.ask("now")
            fields = fields_of(run(fabric, "alpha", "perfquery", "-x"))
        finally:
            monitor.stop()
        sent, received = (int(value) for value in second.split())
        check(sent - int(first.split()[0]) >= 1000 * 1024, f"{first} then {second}")
        check((sent, received) == (fields["PortXmitData"], fields["PortRcvData"]), f"{second}, {fields}")


# -- tools -------------------------------------------------------------------------------------------------------------


def rows_of(text):
    lines = text.splitlines()
    check(lines[0].split() == ["DEV", "PORT", "INDEX", "GID", "IPv4", "VER", "DEV"], lines[0])
    return [line.split("\t") for line in lines[2:-1]], lines[-1]


def show_gids_on_infiniband(softib):
    with described(softib, PAIR) as fabric:
        rows, total = rows_of(tool(fabric, "show_gids"))
        prefix = "fe80:0000:0000:0000:a088:c203:00ab:cd"
        check([row[:4] for row in rows] == [["mlx5_0", "1", "0", prefix + "01"], ["mlx5_0", "2", "0", prefix + "02"],
                                            ["mlx5_10", "1", "0", prefix + "10"]], f"{rows}")
        check(all(row[4:] == ["", "", "v1", ""] for row in rows), f"{rows}")
        check(total == "n_gids_found=3", total)
        check(rows_of(tool(fabric, "show_gids", "mlx5_0", "2"))[0] == [rows[1]], "one port")
        check("no device 'mlx5_1'" in tool(fabric, "show_gids", "mlx5_1", status=1), "mlx5_1 is not mlx5_10")
        check("no port '3'" in tool(fabric, "show_gids", "mlx5_0", "3", status=1), "port 3")


def show_gids_on_ethernet(softib):
    with described(softib, ROCE) as fabric:
        rows, total = rows_of(tool(fabric, "show_gids"))
        check(total == "n_gids_found=8" and len(rows) == 8, total)
        addresses = [[cell.strip() for cell in row] for row in rows if len(row) == 7 and row[4].strip()]
        check([(row[0], row[2], row[4], row[5], row[6]) for row in addresses] ==
              [("mlx5_0", "2", "10.1.2.3", "v1", "roce0"), ("mlx5_0", "3", "10.1.2.3", "v2", "roce0"),
               ("mlx5_1", "2", "192.168.255.1", "v1", "roce1"), ("mlx5_1", "3", "192.168.255.1", "v2", "roce1")],
              f"{addresses}")


def ibdev2netdev_says_what_there_is(softib):
    with described(softib, ROCE) as fabric:
        text = tool(fabric, "ibdev2netdev")
        check(text == "mlx5_0 port 1 ==> roce0 (Up)\nmlx5_1 port 1 ==> roce1 (Down)\n", text)
        text = tool(fabric, "ibdev2netdev", "-v")
        check(re.match(r"0000:10:00.0 mlx5_0 \(SoftIB - NA\)  fw [\d.]+ port 1 \(ACTIVE\) ==> roce0 \(Up\)\n"
                       r"0000:11:00.0 mlx5_1 \(SoftIB - NA\)  fw [\d.]+ port 1 \(DOWN  \) ==> roce1 \(Down\)\n$", text),
              text)
    with described(softib, PAIR) as fabric:
        text = tool(fabric, "ibdev2netdev")
        check(text == "ibdev2netdev: none of the 3 ports has a network interface\n", text)
        for name in ("ibdev2netdev", "show_gids"):
            check("usage:" in tool(fabric, name, "--help"), name)
            check("usage:" in tool(fabric, name, "--none", status=1), name)


def ports_and_their_interfaces_are_told_apart(softib):
    """By sysfs alone, which is what tools go by."""
    fabric = described(softib, PAIR)
    fabric.environment.pop("SOFTIB_NAMESPACES")
    with fabric:
        need_namespaces(fabric)
        text = tool(fabric, "ibdev2netdev")
        check(text == "mlx5_0 port 1 ==> ib0 (Up)\nmlx5_0 port 2 ==> ib1 (Down)\nmlx5_10 port 1 ==> ib2 (Up)\n", text)
        each = ("$i $(cat $i/dev_id) $(cat $i/dev_port) $(cat $i/mode) $(ls $i/device/infiniband) $(cat $i/mtu) "
                "$(ls $i/device/net)")
        owners = run(fabric, "alpha", "sh", "-c", f"cd /sys/class/net && for i in ib*; do echo {each}; done")
        check(owners.splitlines() == ["ib0 0x0 0 datagram mlx5_0 2044 ib0 ib1",
                                      "ib1 0x1 1 datagram mlx5_0 2044 ib0 ib1",
                                      "ib2 0x0 0 datagram mlx5_10 2044 ib2"], owners)
        refused = run(fabric, "alpha", "sh", "-c", "echo connected >/sys/class/net/ib0/mode", status=2)
        check("Read-only file system" in refused, f"a mode that nobody hears is taken: {refused}")
        run(fabric, "alpha", "sh", "-c", "echo 600 >/sys/class/net/ib0/tx_queue_len && "
            "ip link show ib0 | grep -q 'qlen 600'")
        same = "cmp /sys/class/net/ib{}/device/resource /sys/class/infiniband/{}/device/resource"
        run(fabric, "alpha", "sh", "-c", same.format(1, "mlx5_0"))
        run(fabric, "alpha", "sh", "-c", same.format(1, "mlx5_10"), status=1)


# -- trees -------------------------------------------------------------------------------------------------------------


def hosts_that_nobody_uses_have_no_files(softib):
    with described(softib, TREE) as fabric:
        hosts = fabric.directory() / "hosts"
        check(not hosts.exists(), "files before the first program")
        run(fabric, "beta", "true")
        check(sorted(path.name for path in hosts.iterdir()) == ["beta"], f"{list(hosts.iterdir())}")
        run(fabric, "beta", "ibportstate", "-D", "0,1", "1", "query")
        lid = re.search(r"Base lid: (\d+)", run(fabric, "gamma", "ibstat")).group(1)
        run(fabric, "gamma", "perfquery", lid, "1")
        check(sorted(path.name for path in hosts.iterdir()) == ["beta", "gamma"], "others' files")


def an_environment_outlives_its_fabric(softib):
    """A shell that has taken `softib env` on goes on when the fabric is ended and started anew."""
    with described(softib, TREE) as fabric:
        environment = dict(line.split("=", 1) for line in fabric.call("env", "gamma", "--plain").stdout.splitlines())
        again = [fabric.softib, "up", fabric.description]
        script = (f"{fabric.softib} down >/dev/null; ls /sys/class/infiniband 2>&1; {' '.join(again)} >/dev/null; "
                  "cat /sys/class/infiniband/mlx5_0/ports/1/state; ibstat | grep State:")
        got, text = fabric.run("alpha", ["env", *(f"{name}={value}" for name, value in environment.items()), "sh", "-c",
                                         script])
        check(got == 0 and "start it with 'softib up'" in text, text)
        check("4: ACTIVE" in text and "State: Active" in text, text)


CASES = (sysfs_counts_what_perfquery_counts, reading_counts_nothing_and_a_reset_shows,
         a_monitor_that_keeps_its_files_open_sees_traffic, show_gids_on_infiniband, show_gids_on_ethernet,
         ibdev2netdev_says_what_there_is, ports_and_their_interfaces_are_told_apart,
         hosts_that_nobody_uses_have_no_files, an_environment_outlives_its_fabric)

if __name__ == "__main__":
    sys.exit(main_of(__doc__, CASES))
