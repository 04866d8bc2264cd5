#!/usr/bin/env python3
"""The backend for torch.distributed on hosts of a fabric: tests/pytorch/rank.py with ranks on two hosts.

    torch_backend.py [--softib PATH] [--filter REGEX] [--full]

Prints PASS, FAIL or SKIP for each case, and a total line. --full has four ranks too, and every failure.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from hosts import Places
from softib_fabric import ROOT, free_port
from suite import Skip, Suite, check, new_parser

PYTHON = "/usr/bin/python3"
GOOD = ("collectives", "messages", "works", "groups", "newer", "modern", "by_environment", "ddp", "zero", "fsdp",
        "wait_with_limit", "monitored", "monitored_by_one")
FULL = False


def package(fabric):
    """Where softib_torch lies, if it was built and the interpreter has PyTorch."""
    folder = pathlib.Path(fabric.softib).parent.parent / "python"
    if not (folder / "softib_torch").exists():
        raise Skip("softib_torch is not built: python3-torch, libtorch-dev and pybind11-dev are missing")
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode:
        raise Skip("python3-torch is not installed")
    return str(folder)


class Ranks:
    """The same program on two hosts in turn."""

    def __init__(self, fabric, size, command, **environment):
        self.folder = tempfile.TemporaryDirectory(prefix="softib-torch.")
        words = [self.folder.name if word == "FOLDER" else word for word in command]
        environment |= {"WORLD_SIZE": str(size), "MASTER_ADDR": "host0", "MASTER_PORT": str(free_port()),
                        "PYTHONPATH": package(fabric), "PYTHONDONTWRITEBYTECODE": "1"}
        self.ranks = [fabric.start(f"host{rank % 2}", [PYTHON, "-W", "ignore", *words], RANK=str(rank), **environment)
                      for rank in range(size)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.stop()
        self.folder.cleanup()

    def conclude(self, seconds=120, killed=()):
        """All output, by rank, once all have passed but those that are killed."""
        for number, rank in enumerate(self.ranks):
            status = rank.wait(seconds)
            wanted = (-signal.SIGKILL, 128 + signal.SIGKILL) if number in killed else (0,)
            check(status in wanted, f"rank {number}: status {status}\n{rank.output()[-3000:]}")
        return [rank.output() for rank in self.ranks]


def run_cases(fabric, size, *cases, killed=(), **environment):
    command = [str(ROOT / "tests/pytorch/rank.py"), "FOLDER", *cases]
    with Ranks(fabric, size, command, **environment) as ranks:
        return ranks.conclude(killed=killed)


def two_ranks_on_two_hosts(fabric):
    output = run_cases(fabric, 2, *GOOD, SOFTIB_DEBUG="INFO")
    check("verbs" in output[0], output[0][-2000:])


def four_ranks_on_two_hosts(fabric):
    need_full()
    run_cases(fabric, 4, *GOOD)


def four_ranks_over_tcp(fabric):
    need_full()
    run_cases(fabric, 4, *GOOD, SOFTIB_IB_DISABLE="1")


def an_absent_rank_is_named(fabric):
    output = run_cases(fabric, 2, "absent")
    check(re.search(r"rank 1 on host1 .* takes no part", output[0]), output[0])


def an_absent_rank_is_named_after_a_time_out_set_later(fabric):
    run_cases(fabric, 2, "absent_later")


def a_killed_rank_is_named(fabric):
    output = run_cases(fabric, 2, "killed", killed=(1,))
    check("rank 1 on host1" in output[0], output[0])


def every_failure_with_four_ranks(fabric):
    need_full()
    for case in ("absent", "absent_later", "absent_from_receive", "late", "killed"):
        output = run_cases(fabric, 4, case, killed=(3,) if case == "killed" else ())
        print("".join(f"  {case}: {line}\n" for line in output[0].splitlines() if "rank 3 on host1" in line), end="")


def need_full():
    if not FULL:
        raise Skip("only with --full")


def training_is_as_in_one_process(fabric):
    command = [str(ROOT / "examples/train_ddp.py"), "--backend", "softib", "--compare", "--epochs", "2",
               "--samples", "2048"]
    with Ranks(fabric, 2, command) as ranks:
        output = ranks.conclude()[0]
    check("weights of 2 ranks equal" in output and re.search(r"one process: .*: equal", output), output)
    print("".join(f"  {line}\n" for line in output.splitlines() if "loss " in line and "->" in line), end="")


CASES = (two_ranks_on_two_hosts, an_absent_rank_is_named, an_absent_rank_is_named_after_a_time_out_set_later,
         a_killed_rank_is_named, training_is_as_in_one_process, four_ranks_on_two_hosts, four_ranks_over_tcp,
         every_failure_with_four_ranks)


def main():
    parser = new_parser(__doc__)
    parser.add_argument("--full", action="store_true")
    suite = Suite(parser)
    global FULL
    FULL = suite.arguments.full
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with Places(suite.arguments.softib) as places:
        suite.run_each(suite.chosen(CASES), places)
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
