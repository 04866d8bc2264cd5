#!/usr/bin/env python3
"""Runs the stock RDMA programs between host0 and host1 of a private fabric, with the options that cases.py lists.

    matrix.py [--quick | --full] [--link-layer infiniband|ethernet] [--softib PATH] [--filter REGEX] [--list]

Prints PASS, FAIL or SKIP (with the reason) for each case, the output of what failed, and a total line.
SOFTIB_MATRIX_HUGE=1 adds the 1 GiB messages (8 GiB of memory).
"""

import argparse
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time

import cases
from softib_fabric import Fabric, FabricError, default_softib, end_in_order, free_port, own_group, wait_listening
from suite import Mismatch, Skip, check

BAD_WORDS = re.compile(r"(?i)couldn't|failed|failure|completion with error|invalid data|unable to|segmentation|softib:")
HARMLESS = re.compile(r"(?i)failed to (get|read) .*(cpu|mhz)|conflicting cpu frequency")


def complaint(output):
    for line in output.splitlines():
        if BAD_WORDS.search(line) and not HARMLESS.search(line):
            return line
    return None


def pair(fabric, server, client, port, seconds):
    """Runs server on host0 and client on host1 to their ends; gives both outputs."""
    end = time.monotonic() + seconds
    first = fabric.start("host0", server)
    second = None
    try:
        if not wait_listening(first, port):
            raise Mismatch(f"the server didn't listen on {port}; status {first.poll()}\n{first.output()}")
        second = fabric.start("host1", client)
        status = second.wait(end - time.monotonic())
        # A server whose client has failed may well wait for it for ever.
        statuses = [status, first.wait(15 if status == 0 else 1)]
        outputs = [second.output(), first.output()]
        if statuses != [0, 0]:
            shown = ["timed out" if s is None else f"status {s}" for s in statuses]
            raise Mismatch(f"client {shown[0]}, server {shown[1]}\n-- client\n{outputs[0]}\n-- server\n{outputs[1]}")
        return outputs
    finally:
        first.stop()
        if second:
            second.stop()


def run_perftest(fabric, case):
    if case.expect.get("huge") and not os.environ.get("SOFTIB_MATRIX_HUGE"):
        raise Skip("1 GiB messages only with SOFTIB_MATRIX_HUGE=1")
    port = free_port()
    command = [case.program, "-d", "mlx5_0", "-F", "-p", str(port), *case.options]
    if "refusal" in case.expect:
        expect_refusal(fabric, command, port, case)
        return
    client, server = pair(fabric, command, [*command, "127.0.0.1"], port, case.seconds)
    for output in (client, server):
        check(not complaint(output), f"complains: {complaint(output)}\n{output}")
    rows = perftest_rows(client)
    check(rows, f"no result row:\n{client}")
    if "bytes" in case.expect:
        check(rows[-1][0] == case.expect["bytes"], f"asked for {case.expect['bytes']} bytes:\n{client}")
    if "-a" in case.options:
        # From 2 bytes to the largest, each size once.
        check([r[0] for r in rows] == [2 << i for i in range(len(rows))], f"sizes are missing:\n{client}")
    check(all(r[2] > 0 for r in rows), f"a result is zero:\n{client}")


def expect_refusal(fabric, command, port, case):
    """Both programs end with the message, without having found a device wanting."""
    try:
        pair(fabric, command, [*command, "127.0.0.1"], port, case.seconds)
    except Mismatch as ended:
        check(str(ended).count(case.expect["refusal"]) == 2 and "timed out" not in str(ended), str(ended))
        return
    raise Mismatch("expected a refusal")


def perftest_rows(output):
    """[bytes, iterations, number...] of each row of the result table."""
    rows = []
    for line in output.splitlines():
        if re.fullmatch(r"\s*\d+\s+\d+(\s+[-+\d.einfa]+)+\s*", line):
            rows.append([int(float(w)) if i < 2 else float(w) for i, w in enumerate(line.split())])
    return rows


def run_pingpong(fabric, case):
    port = free_port()
    gid = ["-g", "0"] if fabric.link_layer == "ethernet" else []
    command = [case.program, "-d", "mlx5_0", "-p", str(port), *gid, *case.options]
    for output in pair(fabric, command, [*command, "127.0.0.1"], port, case.seconds):
        if "-P" in case.options and "prefetch MR(95)" in output:
            raise Skip("the rxe provider of this rdma-core has no ibv_advise_mr")
        check(not complaint(output), f"complains: {complaint(output)}\n{output}")
        check(re.search(r"\d+ bytes in [\d.]+ seconds", output) and "usec/iter" in output, f"no result:\n{output}")


def run_devices(fabric, _):
    guids = set()
    for host in ("host0", "host1"):
        status, output = fabric.run(host, ["ibv_devices"])
        check(status == 0, f"status {status} on {host}:\n{output}")
        found = re.findall(r"^\s*(\S+)\s+([0-9a-f]{16})\s*$", output, re.M)
        check([name for name, _ in found] == ["mlx5_0"], f"{host} doesn't show mlx5_0 alone:\n{output}")
        guids.add(found[0][1])
    check(len(guids) == 2 and "0" * 16 not in guids, f"node GUIDs {guids}")


def run_devinfo(fabric, case):
    layer = {"infiniband": "InfiniBand", "ethernet": "Ethernet"}[fabric.link_layer]
    lids = set()
    for host in ("host0", "host1"):
        status, output = fabric.run(host, ["ibv_devinfo", *case.options])
        check(status == 0, f"status {status} on {host}:\n{output}")
        fields = dict(re.findall(r"^\s*(\w+):\s+(\S.*?)\s*$", output, re.M))
        wanted = {"hca_id": "mlx5_0", "phys_port_cnt": "1", "link_layer": layer, "state": "PORT_ACTIVE (4)",
                  "phys_state": "LINK_UP (5)"}
        for key, value in wanted.items():
            check(fields.get(key) == value, f"{host}: {key} is {fields.get(key)}, not {value}\n{output}")
        check("GID[" in output, f"{host}: no GIDs\n{output}")
        lids.add(fields.get("port_lid"))
    if layer == "InfiniBand":
        check(len(lids) == 2 and "0" not in lids, f"LIDs {lids}")


def run_asyncwatch(fabric, _):
    """It prints its descriptor and waits for events; a terminal makes it print at once."""
    master, slave = pty.openpty()
    process = subprocess.Popen(fabric.command("run", "host0", "--", "ibv_asyncwatch", "-d", "mlx5_0"), stdout=slave,
                               stderr=slave, env=fabric.environment, cwd=fabric.folder, **own_group())
    os.close(slave)
    try:
        output = b""
        end = time.monotonic() + 10
        while b"async event FD" not in output and time.monotonic() < end:
            try:
                output += os.read(master, 4096)
            except OSError:
                break
        check(b"async event FD" in output, f"it printed {output!r}")
        time.sleep(0.3)
        check(process.poll() is None, f"it ended with {process.poll()}")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)


def run_qperf(fabric, case):
    if fabric.link_layer == "ethernet":
        raise Skip("without rdma_cm qperf addresses by LID only")
    port = free_port()
    server = fabric.start("host0", ["qperf", "-lp", str(port)])
    try:
        check(wait_listening(server, port), f"the server didn't listen; status {server.poll()}\n{server.output()}")
        client = ["qperf", "127.0.0.1", "-lp", str(port), "-t", "1", "-i", "mlx5_0:1", *case.options]
        status, output = fabric.run("host1", client, case.seconds)
        check(status == 0, f"status {status}:\n{output}\n-- server\n{server.output()}")
        check(not complaint(output), f"complains: {complaint(output)}")
        value = re.search(r"(bw|latency|msg_rate|rate)\s+=\s+([\d.]+)", output)
        verified = case.options[0].startswith("ver_")
        check(verified or (value and float(value.group(2)) > 0), f"no result:\n{output}")
    finally:
        server.stop()


RUNNERS = {"perftest": run_perftest, "pingpong": run_pingpong, "devices": run_devices, "devinfo": run_devinfo,
           "asyncwatch": run_asyncwatch, "qperf": run_qperf}


def run_case(fabric, case):
    """('PASS' | 'FAIL' | 'SKIP', text)"""
    if case.skip:
        return "SKIP", case.skip
    if not shutil.which(case.program):
        return "SKIP", f"{case.program} is not installed"
    try:
        RUNNERS[case.kind](fabric, case)
    except Skip as why:
        return "SKIP", str(why)
    except (Mismatch, OSError, subprocess.TimeoutExpired) as what:
        return "FAIL", str(what)
    return "PASS", ""


def leftovers(fabric):
    """What the daemon still holds once all programs have ended: it must be nothing."""
    end = time.monotonic() + 5
    while True:
        held = held_objects(fabric.status())
        if not held or time.monotonic() > end:
            return held
        time.sleep(0.1)


def held_objects(status):
    """Names and counts of objects and processes that `softib status --json` tells of."""
    held = {}

    def walk(node, path):
        if isinstance(node, dict):
            for key, value in node.items():
                if key == "objects" and isinstance(value, dict):
                    held.update({f"{path}{k}": v for k, v in value.items() if isinstance(v, int) and v})
                elif key == "processes" and isinstance(value, list) and value:
                    held[f"{path}processes"] = len(value)
                else:
                    walk(value, f"{path}{key}.")
        elif isinstance(node, list):
            for index, value in enumerate(node):
                walk(value, f"{path}{index}.")

    walk(status, "")
    return held


def run_all(fabric, chosen):
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    failed = []
    for case in chosen:
        begin = time.monotonic()
        verdict, text = run_case(fabric, case)
        counts[verdict] += 1
        note = f" ({text})" if verdict == "SKIP" else ""
        print(f"{verdict}  {fabric.link_layer}  {case.name}{note}  [{time.monotonic() - begin:.1f} s]", flush=True)
        if verdict == "FAIL":
            failed.append(case.name)
            print("\n".join("    " + line for line in text.splitlines()[:60]), flush=True)
        if fabric.daemon_pid() is None or not os.path.exists(f"/proc/{fabric.daemon_pid()}"):
            raise FabricError(f"softibd died during {case.name}:\n{fabric.daemon_log()}")
    held = leftovers(fabric)
    if held:
        counts["FAIL"] += 1
        failed.append("leftovers")
        print(f"FAIL  {fabric.link_layer}  objects left behind: {held}")
    return counts, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a subset for every change (default)")
    size.add_argument("--full", action="store_true")
    parser.add_argument("--link-layer", choices=["infiniband", "ethernet"], default="infiniband")
    parser.add_argument("--softib", default=default_softib())
    parser.add_argument("--filter", default="", help="regular expression over case names")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    chosen = [c for c in cases.all_cases() if (arguments.full or c.quick) and re.search(arguments.filter, c.name)]
    if arguments.list:
        print("\n".join(c.name + (f"  (skipped: {c.skip})" if c.skip else "") for c in chosen))
        print(f"{len(chosen)} cases")
        return 0
    end_in_order()
    with Fabric(arguments.softib, arguments.link_layer) as fabric:
        counts, failed = run_all(fabric, chosen)
    if failed:
        print("failed: " + "; ".join(failed))
    print(f"{counts['PASS']} passed, {counts['FAIL']} failed, {counts['SKIP']} skipped")
    return 1 if failed or not counts["PASS"] else 0


if __name__ == "__main__":
    sys.exit(main())
