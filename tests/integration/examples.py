#!/usr/bin/env python3
"""The programs under examples/, each as its first lines say.

    examples.py [--softib PATH] [--filter REGEX]

Prints PASS, FAIL or SKIP for each case, and a total line.
"""

import pathlib
import subprocess
import sys

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


def allreduce(fabric):
    program = built(fabric, "mpi_allreduce_openmpi")
    words = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ucx"]
    for host in ("host0", "host1"):
        words += [*([] if host == "host0" else [":"]), "-np", "1", *fabric.command("run", host, "--", program, "2")]
    done = subprocess.run(words, env={**fabric.environment, "UCX_TLS": "rc_v,ud_v,self"}, cwd=fabric.folder,
                          capture_output=True, text=True, timeout=120, check=False)
    check(done.returncode == 0 and "2 ranks, 2 MiB" in done.stdout and "result right" in done.stdout,
          f"status {done.returncode}\n{done.stdout}{done.stderr}")


def torch_training(fabric):
    if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True, check=False).returncode:
        raise Skip("python3-torch is not installed")
    ranks = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    command = ["/usr/bin/python3", str(EXAMPLES / "train_ddp.py"), "--epochs", "3"]
    other = fabric.start("host1", command, RANK="1", **ranks)
    try:
        status, output = fabric.run("host0", command, seconds=120, RANK="0", **ranks)
        check(status == 0 and output.count("epoch ") == 3 and "weights of 2 ranks equal" in output, output)
        check(other.wait(30) == 0, other.output())
    finally:
        other.stop()


CASES = (write_with_immediate, write_with_immediate_tells_what_it_lacks, echo_by_rdma_cm, allreduce, torch_training)


def write_with_immediate_on_ethernet(softib):
    fabric = described(softib, "link_layer: ethernet\nhosts: 2\n")
    with fabric:
        write_with_immediate(fabric)


def main():
    suite = Suite(new_parser(__doc__))
    suite.on("hosts: 2\n", CASES)
    suite.alone((write_with_immediate_on_ethernet,))
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
