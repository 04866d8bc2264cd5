"""How each library's timing program is started, here or on two hosts, and the floors beside them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path += [str(Path(__file__).resolve().parents[1] / folder) for folder in ("fabric", "verbs")]

import measure  # noqa: E402
import parse    # noqa: E402
from fabrics import MeasureError, SoftFabric, clean_environment, tail  # noqa: E402
from results import (ALLOCATED, DUEL, EACH_WAY, GLOO, MPICH, ONE_HOST, OPEN_MPI, OPEN_MPI_TCP,  # noqa: E402
                     ORDINARY, TWO_HOSTS, OutputError, parse_rows)

JOB_LIMIT = 150  # seconds until a job must have ended
HOSTS = ("host0", "host1")


# -- processes that belong together

class Job:
    """Each command in a process group of its own, its output in a file; none is left when this ends.

    Not in sessions of their own: the kernel would schedule each as a group (sched_autogroup), and a rank that yields
    would yield to nobody but itself.
    """

    def __init__(self, commands: list, environment: dict, folder: Path):
        self.commands = commands
        self.environment = environment
        self.folder = folder
        self.processes = []

    def run(self) -> str:
        """What the first command wrote, once all have ended with status 0."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            files = [Path(folder) / str(number) for number in range(len(self.commands))]
            try:
                for command, file in zip(self.commands, files):
                    self.start(command, file)
                self.wait(files)
            finally:
                self.stop()
            return files[0].read_text(errors="replace")

    def start(self, command: list, file: Path):
        with file.open("w") as output:
            self.processes.append(subprocess.Popen(command, env=self.environment, cwd=self.folder, stdout=output,
                                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                                   preexec_fn=os.setpgrp))

    def wait(self, files: list):
        deadline = time.monotonic() + JOB_LIMIT
        while any(process.poll() is None for process in self.processes):
            self.look_for_failures(files)
            if time.monotonic() > deadline:
                raise MeasureError(f"did not end within {JOB_LIMIT} s: {tail(files[0].read_text(errors='replace'))}")
            time.sleep(0.02)
        self.look_for_failures(files)

    def look_for_failures(self, files: list):
        for process, file in zip(self.processes, files):
            if process.poll():
                raise MeasureError(f"ended with {process.returncode}: {tail(file.read_text(errors='replace'))}")

    def stop(self):
        for number, patience in ((signal.SIGTERM, 3), (signal.SIGKILL, 3)):
            running = [process for process in self.processes if process.poll() is None]
            for process in running:
                try:
                    os.killpg(process.pid, number)
                except ProcessLookupError:
                    pass
            for process in running:
                try:
                    process.wait(patience)
                except subprocess.TimeoutExpired:
                    pass


# -- the ways

@dataclass(frozen=True)
class Way:
    key: str
    text: str       # in tables
    library: str    # of the timing program's name
    options: tuple = ()   # of the timing program
    launcher: tuple = ()  # of mpirun

    def program(self, binaries: Path) -> Path:
        return binaries / f"coll_timing_{self.library}"

    def needs(self, binaries: Path) -> list:
        launchers = {"openmpi": "mpirun.openmpi", "mpich": "mpiexec.mpich"}
        missing = [] if self.program(binaries).exists() else [self.program(binaries).name]
        launcher = launchers.get(self.library)
        return missing + ([launcher] if launcher and not shutil.which(launcher) else [])


PACKAGES = {"openmpi": "openmpi-bin libopenmpi-dev", "mpich": "mpich libmpich-dev", "gloo": "libgloo-dev",
            "softib": "nothing"}
NO_VERBS = "no verbs device works"  # what this engine says when it goes over TCP, which isn't what is asked here
OVER_RC = "UCX_TLS=rc_v,self"
IN_MEMORY = ("--memory", "allocated")
UNBOUND = ("--no-pin",)  # gloo's waiting threads hand over to others of its own, which need the same cores

WAYS = {
    ONE_HOST: (
        Way(ALLOCATED, "SoftIB, memory of allocate()", "softib", IN_MEMORY),
        Way(ORDINARY, "SoftIB, ordinary memory", "softib"),
        Way(OPEN_MPI, "Open MPI, shared memory", "openmpi", (), ("--mca", "pml", "ob1", "--mca", "btl", "vader,self")),
        Way(MPICH, "MPICH, shared memory", "mpich"),
        Way(GLOO, "gloo, TCP over lo", "gloo", ("--interface", "lo", *UNBOUND))),
    TWO_HOSTS: (
        Way(ALLOCATED, "SoftIB, memory of allocate()", "softib", IN_MEMORY),
        Way(ORDINARY, "SoftIB, ordinary memory", "softib"),
        Way(OPEN_MPI, "Open MPI, UCX rc_v", "openmpi", (), ("--mca", "pml", "ucx", "-x", OVER_RC)),
        Way(OPEN_MPI_TCP, "Open MPI, TCP", "openmpi", (), ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca",
                                                           "btl_tcp_if_include", "eth0")),
        Way(MPICH, "MPICH, UCX rc_v", "mpich", (), ("-genv", *OVER_RC.split("="))),
        # Not over UCX's tcp, with which MPI_Finalize hangs at times, without SoftIB too.
        Way(GLOO, "gloo, TCP", "gloo", ("--interface", "eth0", *UNBOUND))),
}
WAYS[DUEL] = tuple(way for way in WAYS[ONE_HOST] if way.key in (ALLOCATED, OPEN_MPI))
CROWD_WAYS = (
    Way(ALLOCATED, "SoftIB", "softib", IN_MEMORY),
    Way(OPEN_MPI, "Open MPI, yielding", "openmpi", (), ("--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "--mca",
                                                        "pml", "ob1", "--mca", "btl", "vader,self")))


def ways_of(scene: str) -> tuple:
    return WAYS.get(scene, CROWD_WAYS)


class Stage:
    """Where jobs run: on this machine, or on the hosts of a fabric."""

    def __init__(self, binaries: Path, folder: Path, fabric: SoftFabric = None):
        self.binaries = binaries
        self.folder = folder
        self.fabric = fabric
        self.environment = fabric.environment if fabric else clean_environment(LC_ALL="C")

    def rows(self, way: Way, ranks: int, options: tuple) -> list:
        with tempfile.TemporaryDirectory(dir=self.folder) as meeting:
            commands = self.commands(way, ranks, (*way.options, *options), meeting)
            output = Job(commands, self.environment, self.folder).run()
        if NO_VERBS in output:
            raise MeasureError(f"not over verbs: {tail(output)}")
        try:
            return parse_rows(output)
        except OutputError as problem:
            raise MeasureError(str(problem)) from None

    def commands(self, way: Way, ranks: int, options: tuple, meeting: str) -> list:
        program = [str(way.program(self.binaries)), *options]
        if way.library in ("softib", "gloo"):
            return [self.placed(rank, [*program, "--rank", str(rank), "--ranks", str(ranks), "--meeting", meeting])
                    for rank in range(ranks)]
        hosts = ",".join(HOSTS)
        if way.library == "openmpi":
            where = ("-H", hosts) if self.fabric else ()
            launcher = ["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", "-np", str(ranks)]
        else:
            where = ("-hosts", hosts) if self.fabric else ()
            launcher = ["mpiexec.mpich", "-bind-to", "none", "-np", str(ranks)]
        return [self.placed(0, [*launcher, *where, *way.launcher, *program])]

    def placed(self, rank: int, command: list) -> list:
        return self.fabric.on(HOSTS[rank], *command) if self.fabric else command


# -- the floors

def hop(binaries: Path) -> float:
    """Seconds."""
    command = [str(binaries / "bench_floor"), "--json", "--cores", "0,1", "--hop"]
    done = subprocess.run(command, text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    if done.returncode != 0:
        raise MeasureError(tail(done.stderr))
    return json.loads(done.stdout)["hop_ns"]["median"] * 1e-9


def perftest(fabric: SoftFabric, tool: str, *options: str) -> str:
    processes = measure.Processes(realtime=False)
    port = measure.free_port()
    words = (tool, "-F", "-p", str(port), *options)
    try:
        server = processes.start(fabric.on(HOSTS[0], *words), 0, fabric.environment)
        measure.wait_until_listening(processes, server, port)
        client = processes.start(fabric.on(HOSTS[1], *words, HOSTS[0]), 1, fabric.environment)
        return processes.finish(client, JOB_LIMIT)
    except measure.MeasureError as problem:
        raise MeasureError(str(problem)) from None
    finally:
        processes.stop_all()


def verbs_floors(fabric: SoftFabric) -> dict:
    """By name: seconds of ib_write_lat, bytes a second of ib_write_bw."""
    short, long = ("-s", "8", "-n", "50000"), ("-s", str(16 << 20), "-n", "100")
    try:
        latency = parse.perftest_latency(perftest(fabric, "ib_write_lat", *short))
        one_way = parse.perftest_bandwidth(perftest(fabric, "ib_write_bw", *long))
        both_ways = parse.perftest_bandwidth(perftest(fabric, "ib_write_bw", "-b", *long))
    except parse.ParseError as problem:
        raise MeasureError(str(problem)) from None
    return {"ib_write_lat": latency.typical, "one way": one_way.bytes_per_second,
            EACH_WAY: both_ways.bytes_per_second / 2}
