"""Running things: fabrics of SoftIB and of ibsim, the stock tools on either, and what a fabric costs."""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "verbs"))

import measure  # noqa: E402
import parse    # noqa: E402

RUN_LIMIT = 300  # seconds until a run must have ended
PRELOAD = "/usr/lib/*/umad2sim/libumad2sim.so"


class MeasureError(Exception):
    """A run that gave no number; the text says why."""


def tail(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-2:]) or "no output"


def clean_environment(**more: str) -> dict:
    inherited = ("LD_PRELOAD", "SOFTIB_FABRIC_DIR", "SOFTIB_HOST")
    return {**{key: value for key, value in os.environ.items() if key not in inherited}, **more}


def call(command: list, environment: dict, folder: Path) -> tuple:
    """(seconds, output) of a program that ends with status 0."""
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=environment, cwd=folder, text=True, errors="replace", timeout=RUN_LIMIT,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        raise MeasureError(f"{Path(command[0]).name} did not end within {RUN_LIMIT} s") from None
    seconds = time.monotonic() - start
    if done.returncode != 0:
        raise MeasureError(f"{Path(command[0]).name} ended with {done.returncode}: {tail(done.stdout)}")
    return seconds, done.stdout


@dataclass(frozen=True)
class Cost:
    up: float     # seconds until `softib up` returns: ports are active
    down: float
    memory: int   # bytes: of the daemon, with what is in use of the shared segment


class SoftFabric:
    """A fabric of SoftIB in a runtime directory of its own."""

    def __init__(self, softib: Path, description: Path, host: str):
        self.softib = str(softib)
        self.description = description
        self.host = host
        self.folder = Path(tempfile.mkdtemp(prefix="softib-bench-"))
        self.environment = clean_environment(SOFTIB_RUNTIME_DIR=str(self.folder / "run"), LC_ALL="C",
                                             SOFTIB_NAMESPACES="off",
                                             OSM_CACHE_DIR=str(self.folder), OSM_TMP_DIR=str(self.folder))
        self.up_seconds = 0.0

    def __enter__(self):
        try:
            self.up_seconds, _ = call([self.softib, "up", str(self.description)], self.environment, self.folder)
            if self.host:
                self.run("true")  # the host's files are made when it is first used
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            self.down()
        except MeasureError:
            pass  # it never came up
        shutil.rmtree(self.folder, ignore_errors=True)

    def down(self) -> float:
        return call([self.softib, "down", "--all"], self.environment, self.folder)[0]

    def on(self, host: str, *command: str) -> list:
        name = next((self.folder / "run").iterdir()).name
        return [self.softib, "run", "--name", name, host, "--", *command]

    def run(self, *command: str) -> tuple:
        """(seconds, output); the time is the program's and that of getting it onto its host."""
        return call(self.on(self.host, *command), self.environment, self.folder)

    def memory(self) -> int:
        pid = int(next((self.folder / "run").glob("*/daemon.pid")).read_text())
        return memory_of(Path(f"/proc/{pid}/status").read_text()) + segment_bytes(pid)


def memory_of(status: str) -> int:
    """Bytes of a process without what it shares, from /proc/PID/status."""
    return sum(int(re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE).group(1)) << 10
               for name in ("RssAnon", "RssFile"))


def segment_bytes(pid: int) -> int:
    """What is in use of the daemon's memory files, touched by whomever."""
    used = {}
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if os.readlink(descriptor).startswith("/memfd:"):
                status = descriptor.stat()
                used[status.st_ino] = status.st_blocks * 512
        except OSError:
            continue
    return sum(used.values())


class SimFabric:
    """The same network in ibsim."""

    def __init__(self, net_file: Path):
        self.net_file = net_file
        first = re.search(r"^# Initiated from node ([0-9a-f]{16})", net_file.read_text(), re.MULTILINE)
        self.folder = Path(tempfile.mkdtemp(prefix="softib-bench-"))
        preload = next(iter(glob.glob(PRELOAD)), "")
        self.environment = clean_environment(LC_ALL="C", IBSIM_SOCKNAME=self.folder.name,
                                             OSM_CACHE_DIR=str(self.folder), OSM_TMP_DIR=str(self.folder))
        self.client = dict(self.environment, LD_PRELOAD=preload, SIM_HOST=f"H-{first.group(1)}")
        self.process = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        self.process = subprocess.Popen(["ibsim", "-s", "-n", str(self.net_file)], env=self.environment,
                                        cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise MeasureError(f"ibsim ended with {self.process.returncode}")
            try:
                call(["smpquery", "-D", "nodeinfo", "0"], self.client, self.folder)
                return
            except MeasureError:
                time.sleep(0.05)
        raise MeasureError("ibsim does not answer")

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *command: str) -> tuple:
        return call(list(command), self.client, self.folder)


# -- what is run on either

def heavy_sweep(fabric) -> float:
    log = fabric.folder / "opensm.log"
    seconds, output = fabric.run("opensm", "-o", "-f", str(log))
    if "SUBNET UP" not in output and "SUBNET UP" not in log.read_text(errors="replace"):
        raise MeasureError(f"opensm did not bring the subnet up: {tail(output)}")
    return seconds


def discovery(fabric, nodes: int) -> float:
    seconds, output = fabric.run("ibnetdiscover")
    found = count_nodes(output)
    if found != nodes:
        raise MeasureError(f"ibnetdiscover found {found} of {nodes} nodes")
    return seconds


def round_trip(fabric, program: Path, count: int) -> float:
    """Microseconds."""
    return parse_round_trip(fabric.run(str(program), "-n", str(count))[1])


def all_paths(fabric, ports: int) -> float:
    seconds, output = fabric.run("saquery", "-p")
    found = output.count("PathRecord dump:")
    if found != ports * ports:
        raise MeasureError(f"saquery gave {found} paths, not {ports} x {ports}")
    return seconds


def one_write(fabric: SoftFabric, far: str) -> float:
    """Microseconds of an 8-byte write and its completion, one at a time, from the fabric's host to another one."""
    processes = measure.Processes(realtime=False)
    port = measure.free_port()
    tool = ("ib_write_bw", "-F", "-p", str(port), "-s", "8", "-t", "1", "-n", "1000000")
    try:
        server = processes.start(fabric.on(far, *tool), 0, fabric.environment)
        measure.wait_until_listening(processes, server, port)
        client = processes.start(fabric.on(fabric.host, *tool, "127.0.0.1"), 1, fabric.environment)
        output = processes.finish(client, RUN_LIMIT)
    except measure.MeasureError as problem:
        raise MeasureError(str(problem)) from None
    finally:
        processes.stop_all()
    return 1e6 / parse.perftest_bandwidth(output).messages_per_second


def count_nodes(dump: str) -> int:
    return len(re.findall(r"^(?:Switch|Ca|Rt)\t", dump, re.MULTILINE))


def parse_round_trip(output: str) -> float:
    found = re.search(r"^median ([\d.]+) p99 [\d.]+$", output, re.MULTILINE)
    if not found:
        raise MeasureError(f"bench_round_trip gave no result: {tail(output)}")
    return float(found.group(1))


def boot(softib: Path, description: Path) -> Cost:
    with SoftFabric(softib, description, "") as fabric:
        memory = fabric.memory()
        return Cost(fabric.up_seconds, fabric.down(), memory)
