"""Running things: a private fabric, perftest and qperf pairs, the floor, the registration bench."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import parse
from report import Sample

DEVICE = "mlx5_0"
LOOPBACK = "127.0.0.1"
START_LIMIT = 20   # seconds until a server must listen
RUN_LIMIT = 120    # seconds until a run must have ended
FLOOR_DRIFT = 1.25  # how far apart the floors before and after a run may lie
FLOOR_TRIES = 4


class MeasureError(Exception):
    """A run that gave no number; the text says why."""


@dataclass(frozen=True)
class Cores:
    server: int
    client: int


# -- processes

class Processes:
    """Everything started here, each in a process group of its own, so that one call ends it all."""

    def __init__(self, realtime: bool):
        self.policy = ["chrt", "-f", "10"] if realtime else []
        self.running = []

    def start(self, command: list, core: int, environment: dict) -> subprocess.Popen:
        process = subprocess.Popen([*self.policy, "taskset", "-c", str(core), *command], env=environment, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        self.running.append(process)
        return process

    def finish(self, process: subprocess.Popen, limit: float) -> str:
        """The output, once it has ended by itself with status 0."""
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            output = self.stop(process)
            raise MeasureError(f"{describe(process)} did not end within {limit} s: {tail(output)}") from None
        self.running.remove(process)
        if process.returncode != 0:
            raise MeasureError(f"{describe(process)} ended with {process.returncode}: {tail(output)}")
        return output

    def stop(self, process: subprocess.Popen) -> str:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                pass
            try:
                output, _ = process.communicate(timeout=2)
                break
            except subprocess.TimeoutExpired:
                output = ""
        if process in self.running:
            self.running.remove(process)
        return output

    def stop_all(self):
        for process in list(self.running):
            self.stop(process)


def describe(process: subprocess.Popen) -> str:
    words = process.args[process.args.index("taskset") + 3:]
    return " ".join(os.path.basename(word) if "/" in word else word for word in words)


def tail(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip() and not set(line.strip()) <= {"-"}]
    return " / ".join(lines[-2:]) or "no output"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def listens(pid: int, port: int) -> bool:
    """Looked up, not tried: perftest's server takes the first connection for its client."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in (line.split() for line in lines):
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                return True
    return False


def wait_until_listening(processes: Processes, server: subprocess.Popen, port: int):
    deadline = time.monotonic() + START_LIMIT
    while not listens(server.pid, port):
        if server.poll() is not None:
            output = processes.stop(server)
            raise MeasureError(f"{describe(server)} ended at once: {tail(output)}")
        if time.monotonic() > deadline:
            processes.stop(server)
            raise MeasureError(f"{describe(server)} does not listen")
        time.sleep(0.01)


# -- the fabric

class Fabric:
    """The default fabric, in a runtime directory of its own."""

    def __init__(self, softib: Path, processes: Processes):
        self.softib = str(softib)
        self.processes = processes
        self.directory = Path(tempfile.mkdtemp(prefix="softib-bench-"))
        self.environment = {**os.environ, "SOFTIB_RUNTIME_DIR": str(self.directory), "SOFTIB_NAMESPACES": "off"}

    def command(self, *arguments: str) -> str:
        done = subprocess.run([self.softib, *arguments], env=self.environment, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        if done.returncode != 0:
            raise MeasureError(f"softib {' '.join(arguments)}: {tail(done.stdout)}")
        return done.stdout

    def __enter__(self):
        try:
            self.command("up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.processes.stop_all()
        try:
            self.command("down")
        except (MeasureError, OSError, subprocess.SubprocessError):
            pass  # it never came up, or has gone
        shutil.rmtree(self.directory, ignore_errors=True)

    def daemon_pid(self) -> int:
        for path in self.directory.glob("*/daemon.pid"):
            return int(path.read_text().split()[0])
        raise MeasureError("no daemon.pid in the runtime directory")

    def on(self, host: str, *command: str) -> list:
        return [self.softib, "run", host, "--", *command]


class Bench:
    """One measurement after the other; each gives a Sample or raises MeasureError."""

    def __init__(self, fabric: Fabric, processes: Processes, binaries: Path, cores: Cores):
        self.fabric = fabric
        self.processes = processes
        self.binaries = binaries
        self.cores = cores

    # -- the floor

    def floor(self, *arguments: str) -> dict:
        cores = f"{self.cores.client},{self.cores.server}"
        command = [*self.processes.policy, str(self.binaries / "bench_floor"), "--json", "--cores", cores, *arguments]
        done = subprocess.run(command, text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=RUN_LIMIT)
        if done.returncode != 0:
            raise MeasureError(tail(done.stderr))
        return json.loads(done.stdout)

    def hop(self) -> float:
        return self.floor("--hop")["hop_ns"]["median"] * 1e-9

    def memcpy(self, size: int) -> float:
        return self.floor("--memcpy", str(size))["memcpy_mib_per_second"][str(size)] * parse.MIB

    # A virtual machine's cores move about on real ones: threads of one core now, far apart the next moment. So the
    # floor is taken right before and after, and a run in whose midst it changed is done again.

    def beside_floor(self, floor, run) -> Sample:
        for _ in range(FLOOR_TRIES):
            before = floor()
            value = run()
            after = floor()
            if max(before, after) <= FLOOR_DRIFT * min(before, after):
                break
        return Sample(value, (before + after) / 2)

    # -- perftest

    def perftest(self, tool: str, *options: str) -> str:
        port = free_port()
        arguments = ("-d", DEVICE, "-F", "-p", str(port), *options)
        server = self.processes.start(self.fabric.on("host0", tool, *arguments), self.cores.server,
                                      self.fabric.environment)
        wait_until_listening(self.processes, server, port)
        client = self.processes.start(self.fabric.on("host1", tool, *arguments, LOOPBACK), self.cores.client,
                                      self.fabric.environment)
        try:
            output = self.processes.finish(client, RUN_LIMIT)
        except MeasureError:
            self.processes.stop(server)
            raise
        self.processes.finish(server, RUN_LIMIT)
        return output

    def latency(self, tool: str, size: int, iterations: int) -> Sample:
        options = ("-s", str(size), "-n", str(iterations))
        return self.beside_floor(self.hop, lambda: parse.perftest_latency(self.perftest(tool, *options)).typical)

    def bandwidth(self, tool: str, size: int, iterations: int) -> Sample:
        options = ("-s", str(size), "-n", str(iterations))
        return self.beside_floor(lambda: self.memcpy(size),
                                 lambda: parse.perftest_bandwidth(self.perftest(tool, *options)).bytes_per_second)

    def message_rate(self, tool: str, size: int, iterations: int, post_list: int) -> Sample:
        options = ("-l", str(post_list)) if post_list > 1 else ()
        output = self.perftest(tool, "-s", str(size), "-n", str(iterations), *options)
        return Sample(parse.perftest_bandwidth(output).messages_per_second)

    # -- what there is without SoftIB

    def tcp(self, test: str, seconds: int) -> Sample:
        port = str(free_port())
        server = self.processes.start(["qperf", "-lp", port], self.cores.server, dict(os.environ))
        try:
            wait_until_listening(self.processes, server, int(port))
            client = self.processes.start(["qperf", "-lp", port, "-t", str(seconds), "-uu", LOOPBACK, test],
                                          self.cores.client, dict(os.environ))
            values = parse.qperf(self.processes.finish(client, RUN_LIMIT))
        finally:
            self.processes.stop(server)
        if len(values) != 1:
            raise MeasureError(f"qperf {test} gave no result")
        return Sample(next(iter(values.values())))

    # -- control calls

    def registration(self, *options: str) -> dict:
        command = self.fabric.on("host0", str(self.binaries / "bench_registration"), "--daemon-pid",
                                 str(self.fabric.daemon_pid()), *options)
        process = self.processes.start(command, self.cores.client, self.fabric.environment)
        output = self.processes.finish(process, 5 * RUN_LIMIT)
        return json.loads(output.strip().splitlines()[-1])
