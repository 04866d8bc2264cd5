"""The matrix: which program with which options. Pure data; matrix.py runs it.

Each case is a pair of command lines (server, client) or a single one. Which options a program has is read from its own
--help, so that the matrix follows the installed versions.
"""

import dataclasses
import functools
import re
import subprocess

SIZES = (1, 1023, 1025, 4097)
GIBIBYTE = 1 << 30
BANDWIDTH = ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw")
LATENCY = ("ib_write_lat", "ib_read_lat", "ib_send_lat", "ib_atomic_lat")
PINGPONGS = ("rc", "uc", "ud", "srq")

# Messages of UC and UD sends may be lost when the receiver is slow; the receive queue of perftest holds 512.
LOSSLESS_COUNT = 500


@dataclasses.dataclass
class Case:
    name: str
    program: str
    options: list
    kind: str  # which runner of matrix.py takes it
    quick: bool = False
    seconds: float = 60
    skip: str = ""
    expect: dict = dataclasses.field(default_factory=dict)


@functools.lru_cache(maxsize=None)
def help_text(program):
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def has_option(program, option):
    return re.search(rf"^\s+{re.escape(option)}[,=\s]", help_text(program), re.M) is not None


# Earlier ones ask for the next completion event with completions of the last one still in the queue (mended upstream by
# "Fix BW tests stuck pending completion event"): with many of them at once, they wait for ever, on any device.
WAITS_WITH_EMPTY_QUEUES = (6, 14)


@functools.lru_cache(maxsize=None)
def perftest_version():
    done = subprocess.run(["ib_send_bw", "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"(\d+)\.(\d+)", done.stdout + done.stderr)
    return tuple(int(part) for part in found.groups()) if found else (0, 0)


def connections(program):
    """Connection types that the program offers and the rxe interface has; the others with the reason to skip."""
    found = re.search(r"--connection=<([A-Z/]+)>", help_text(program))
    for name in found.group(1).split("/") if found else ["RC"]:
        yield name, "" if name in ("RC", "UC", "UD") else f"the rxe provider has no {name} queue pairs"


def perftest_case(program, connection, label, options, quick=False, **more):
    count = LOSSLESS_COUNT if connection != "RC" else 1000
    if "-l" in options:
        count -= count % int(options[options.index("-l") + 1])  # perftest wants a multiple
    if "-n" not in options:
        options = [*options, "-n", str(count)]
    name = " ".join([program, connection, label]).strip()
    return Case(name, program, ["-c", connection, *options], "perftest", quick, **more)


def perftest_sized(program, connection):
    sized = has_option(program, "-s")
    if not sized:
        return
    count = ["-n", "20"]
    yield perftest_case(program, connection, "-a", ["-a", *count], connection == "RC", seconds=120)
    for size in SIZES:
        quick = connection == "RC" and size in (1, 4097)
        if connection == "UD" and size > 4096:
            yield perftest_case(program, connection, f"-s {size}", ["-s", str(size)], quick,
                                expect={"refusal": "Max message size in UD cannot be greater than MTU"})
            continue
        yield perftest_case(program, connection, f"-s {size}", ["-s", str(size)], quick, expect={"bytes": size})
    if connection != "UD":
        yield perftest_case(program, connection, "-s 1GiB", ["-s", str(GIBIBYTE), "-n", "5"], seconds=300,
                            expect={"bytes": GIBIBYTE, "huge": True})
    if has_option(program, "-I"):
        for size in (64, 220):
            yield perftest_case(program, connection, f"--inline_size={size}",
                                [f"--inline_size={size}", "-s", str(size)], size == 220, expect={"bytes": size})


def perftest_modes(program, connection):
    rc = connection == "RC"
    yield perftest_case(program, connection, "", [], quick=True)
    modes = [("-b", rc), ("-q 8", rc), ("-b -q 8", False), ("-l 8 -q 2", False), ("-Q 1 -t 16", False)]
    for mode, quick in modes if program in BANDWIDTH else []:
        words = mode.split()
        if all(has_option(program, word) for word in words if word.startswith("-")):
            yield perftest_case(program, connection, mode, words, quick)
    if has_option(program, "-e"):
        yield perftest_case(program, connection, "-e", ["-e"], True)
        if program in BANDWIDTH:
            old = program == "ib_send_bw" and perftest_version() < WAITS_WITH_EMPTY_QUEUES
            yield perftest_case(program, connection, "-e -b -q 8", ["-e", "-b", "-q", "8"],
                                skip="this perftest loses a completion event of its own making" if old else "")
    else:
        yield perftest_case(program, connection, "-e", ["-e"], skip="the program has no -e")
    if has_option(program, "-g") and connection == "UD":
        # The default group has an IPv6 address, and perftest wants the port's GID to be of the same kind.
        yield perftest_case(program, connection, "-g", ["-g", "--ipv6"], True)
    if has_option(program, "-A"):
        yield perftest_case(program, connection, "CMP_AND_SWAP", ["-A", "CMP_AND_SWAP"], True)


def perftest():
    for program in (*BANDWIDTH, *LATENCY):
        for connection, missing in connections(program):
            if missing:
                yield perftest_case(program, connection, "", [], skip=missing)
                continue
            yield from perftest_modes(program, connection)
            yield from perftest_sized(program, connection)


def pingpongs():
    for kind in PINGPONGS:
        program = f"ibv_{kind}_pingpong"
        for label in ("", "-e", "-c", "-e -c"):
            yield Case(f"{program} {label}".strip(), program, label.split(), "pingpong", quick=label != "-e -c")
        yield Case(f"{program} -s 1 -n 5000", program, ["-s", "1", "-n", "5000"], "pingpong")
    for label in ("-N", "-o", "-o -P", "-m 4096 -s 100000"):
        yield Case(f"ibv_rc_pingpong {label}", "ibv_rc_pingpong", label.split(), "pingpong")
    for label, reason in (("-t", "the rxe interface has no completion timestamps"),
                          ("-j", "the rxe interface has no device memory"),
                          ("-O", "the rxe interface has no implicit on-demand paging")):
        yield Case(f"ibv_rc_pingpong {label}", "ibv_rc_pingpong", label.split(), "pingpong", skip=reason)
    yield Case("ibv_xsrq_pingpong", "ibv_xsrq_pingpong", [], "pingpong", skip="the rxe provider has no XRC queue pairs")


def tools():
    yield Case("ibv_devices", "ibv_devices", [], "devices", quick=True)
    yield Case("ibv_devinfo -v", "ibv_devinfo", ["-v"], "devinfo", quick=True)
    yield Case("ibv_asyncwatch", "ibv_asyncwatch", [], "asyncwatch", quick=True)


QPERF = ("rc_bw rc_lat rc_bi_bw uc_bw uc_lat uc_bi_bw ud_bw ud_lat ud_bi_bw rc_rdma_read_bw rc_rdma_read_lat "
         "rc_rdma_write_bw rc_rdma_write_lat rc_rdma_write_poll_lat uc_rdma_write_bw uc_rdma_write_lat "
         "uc_rdma_write_poll_lat rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add").split()
QPERF_QUICK = {"rc_bw", "rc_lat", "uc_bw", "ud_bw", "ud_lat", "rc_rdma_read_bw", "rc_rdma_write_bw", "ver_rc_fetch_add"}


def qperf():
    for test in QPERF:
        yield Case(f"qperf {test}", "qperf", [test], "qperf", quick=test in QPERF_QUICK, seconds=30)
    for test in ("xrc_bw", "xrc_lat"):
        yield Case(f"qperf {test}", "qperf", [test], "qperf", skip="the rxe provider has no XRC queue pairs")


def all_cases():
    for group in (tools, pingpongs, perftest, qperf):
        yield from group()
