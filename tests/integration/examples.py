#!/usr/bin/env python3
"""The programs under examples/, each as its first lines say.

    examples.py [--softib PATH] [--filter REGEX]

Prints PASS, FAIL or SKIP for each case, and a total line.
"""

import pathlib
import re
import subprocess
import sys

from hosts import need
from launching import FROM_MACHINE, Shells
from softib_fabric import ROOT, free_port
from suite import Skip, Suite, check, described, new_parser, run, wait_for

EXAMPLES = ROOT / "examples"
SERVER = "localhost"  # where a server on host0 listens with TCP


def built(fabric, name):
    program = pathlib.Path(fabric.softib).with_name(name)
    if not program.exists():
        raise Skip(f"{name} is not built")
    return str(program)


def write_with_immediate(fabric):
    program, port = built(fabric, "rc_write_with_imm"), str(free_port())
    server = fabric.start("host0", [program, "--port", port])
    try:
        check('got "HELLO OVER RDMA"' in run(fabric, "host1", program, "--port", port, SERVER), "the client's line")
        check(server.wait(10) == 0 and 'got "hello over RDMA"' in server.output(), server.output())
    finally:
        server.stop()


def write_with_immediate_tells_what_it_lacks(fabric):
    status, output = fabric.run("host1", [built(fabric, "rc_write_with_imm"), "--nonsense"])
    check(status == 2 and output.startswith("usage: "), output)
    status, output = fabric.run("host1", [built(fabric, "rc_write_with_imm"), "no-such-host.invalid"])
    check(status == 1 and "no-such-host.invalid: " in output, output)


def echo_by_rdma_cm(fabric):
    program, port = built(fabric, "cm_echo"), str(free_port())
    before = fabric.status()["rdma_cm"]["listening"]
    server = fabric.start("host0", [program, "--listen", port])
    try:
        wait_for(lambda: fabric.status()["rdma_cm"]["listening"] > before, f"it does not listen: {server.output()}")
        for text in ("hello over rdma_cm", "and again"):
            answer = run(fabric, "host1", program, "host0", port, text)
            check(answer == f'client: got "{text}"\n', answer)
        status, output = fabric.run("host1", [program, "host0", str(free_port()), "nobody there"])
        check(status == 1 and "cannot connect to host0" in output, output)
    finally:
        server.stop()
    check('server: got "and again"' in server.output(), server.output())


# -- on hosts with networks of their own, where there are such, and from this machine's shell


class AnyHosts(Shells):
    def needs(self):
        """Nothing: the examples run on hosts without namespaces too."""


def allreduce(places):
    for mpi, words in (("openmpi", ["--mca", "pml", "ucx"]), ("mpich", [])):
        program = built(places, f"mpi_allreduce_{mpi}")
        need(f"mpirun.{mpi}")
        command = [f"mpirun.{mpi}", "-host" if mpi == "mpich" else "-H", "host0,host1", *words, program, "2"]
        output = places.launch(FROM_MACHINE, command).stdout
        check("2 ranks, 2 MiB" in output and "result right" in output, f"{mpi}: {output}")


def torch_training(places):
    """The loss goes down, and all ranks have the same weights at the end."""
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
        raise Skip("python3-torch is not installed")
    ranks = {"MASTER_ADDR": "host0", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    if places.status()["namespaces"]["kind"] == "namespaces":
        ranks.update(MASTER_ADDR="host0-ib0", GLOO_SOCKET_IFNAME="ib0")
    command = [python, str(EXAMPLES / "train_ddp.py"), "--epochs", "3"]
    other = places.start("host1", command, RANK="1", **ranks)
    try:
        status, output = places.run("host0", command, seconds=120, RANK="0", **ranks)
        losses = [float(loss) for loss in re.findall(r"^epoch \d: loss ([\d.]+)$", output, re.M)]
        check(len(losses) == 3 and losses[0] > losses[1] > losses[2], f"losses {losses}: {output}")
        check(status == 0 and "weights of 2 ranks equal" in output, f"status {status}: {output}")
        check(other.wait(30) == 0, other.output())
    finally:
        other.stop()


def training_in_cpp(places):
    """Ranks on two hosts have the losses of one process."""
    for name in ("train_data_parallel", "train_split_model"):
        program = built(places, name)
        ranks = {"SOFTIB_COMM_ID": f"host0:{free_port()}", "WORLD_SIZE": "2"}
        other = places.start("host1", [program], RANK="1", **ranks)
        try:
            status, output = places.run("host0", [program], seconds=60, RANK="0", **ranks)
            check(status == 0 and other.wait(30) == 0, f"{name}: status {status}: {output}{other.output()}")
            check("equal (largest" in output + other.output(), f"{name}: {output}{other.output()}")
        finally:
            other.stop()
        done = places.call("run", "all", "--", program, seconds=60)
        check(done.returncode == 0 and "equal (largest" in done.stdout, f"run all {name}: {done.stdout}{done.stderr}")


ON_PLACES = (allreduce, torch_training, training_in_cpp)
CASES = (write_with_immediate, write_with_immediate_tells_what_it_lacks, echo_by_rdma_cm)


def write_with_immediate_on_ethernet(softib):
    fabric = described(softib, "link_layer: ethernet\nhosts: 2\n")
    with fabric:
        write_with_immediate(fabric)


def main():
    suite = Suite(new_parser(__doc__))
    suite.on("hosts: 2\n", CASES)
    if suite.chosen(ON_PLACES):
        with AnyHosts(suite.arguments.softib) as places:
            suite.run_each(suite.chosen(ON_PLACES), places)
    suite.alone((write_with_immediate_on_ethernet,))
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
