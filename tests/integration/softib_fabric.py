"""A private fabric for tests: brings it up, runs real programs on its hosts, takes it down. Standard library only."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def default_softib():
    return os.environ.get("SOFTIB", str(ROOT / "build" / "release" / "bin" / "softib"))


def own_group():
    """Arguments of Popen for a program that os.killpg ends with all it started.

    Not a session of its own where that can be had: Linux schedules sessions as groups (autogroup), and 6.18 lets groups
    of threads that sleep and wake all the time starve the others for seconds.
    """
    return {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}


def free_port():
    """A TCP port that nothing listens on now."""
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        probe.bind(("::", 0))
        return probe.getsockname()[1]


def is_listening(port):
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = pathlib.Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[1].endswith(wanted) and fields[3] == "0A":
                return True
    return False


def wait_listening(process, port, seconds=20):
    """True once `port` is listened on; False when `process` ended first or the time is up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_listening(port):
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.01)
    return False


class Program:
    """A program in its own process group, with its output in a file, so that a full pipe never stops it."""

    def __init__(self, argv, environment, cwd):
        self.argv = argv
        self.log = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
                                        env=environment, cwd=cwd, **own_group())

    def poll(self):
        return self.process.poll()

    def wait(self, seconds):
        """The exit status, or None when the time is up."""
        try:
            return self.process.wait(max(seconds, 0.01))
        except subprocess.TimeoutExpired:
            return None

    def stop(self):
        """Ends the program and all that it started."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, how)
            except ProcessLookupError:
                break
            if self.wait(2) is not None and how is signal.SIGTERM:
                continue
        self.process.wait()

    def output(self):
        self.log.seek(0)
        return self.log.read()


def end_in_order():
    """Makes SIGTERM run the clean-up, as an interrupt from the keyboard does."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


class Talking:
    """A program that answers each line it is given with a line."""

    def __init__(self, argv, environment, cwd):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=cwd,
                                        text=True, **own_group())

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()


class FabricError(Exception):
    pass


class Fabric:
    """with Fabric(link_layer="ethernet") as fabric: fabric.start("host0", ["ibv_devinfo"])"""

    def __init__(self, softib=None, link_layer="infiniband", name=None):
        self.softib = softib or default_softib()
        self.link_layer = link_layer
        self.description = None  # a fabric file, else the default fabric
        self.name = name
        self.folder = tempfile.mkdtemp(prefix="softib-test-")
        # Hosts share the machine's network, so that "localhost" leads from one to the other, unless a test is about
        # their namespaces.
        self.environment = dict(os.environ, SOFTIB_RUNTIME_DIR=self.folder + "/run", LC_ALL="C",
                                SOFTIB_NAMESPACES="off")
        for inherited in ("LD_PRELOAD", "SOFTIB_FABRIC_DIR", "SOFTIB_HOST"):
            self.environment.pop(inherited, None)

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_):
        self.down()

    def command(self, *words):
        naming = ["--name", self.name] if self.name else []
        return [self.softib, words[0], *naming, *words[1:]]

    def call(self, *words, seconds=30):
        return subprocess.run(self.command(*words), env=self.environment, cwd=self.folder, capture_output=True,
                              text=True, timeout=seconds, check=False)

    def up(self):
        if not os.access(self.softib, os.X_OK):
            raise FabricError(f"{self.softib} is not there: build first (cmake --build --preset release)")
        layer = [] if self.link_layer == "infiniband" else ["--link-layer", self.link_layer]
        done = self.call("up", *layer, *([self.description] if self.description else []), seconds=120)
        if done.returncode != 0:
            raise FabricError(f"softib up failed ({done.returncode}): {done.stdout}{done.stderr}{self.daemon_log()}")

    def down(self):
        """Takes the fabric down and checks that the daemon has ended."""
        pid = self.daemon_pid()
        try:
            self.call("down", seconds=120)
            if pid and not wait_gone(pid, 5):
                os.kill(pid, signal.SIGKILL)
                raise FabricError(f"softibd {pid} was still there 5 s after softib down")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def directory(self):
        return pathlib.Path(self.environment["SOFTIB_RUNTIME_DIR"]) / (self.name or "default")

    def daemon_pid(self):
        try:
            return int((self.directory() / "daemon.pid").read_text())
        except (OSError, ValueError):
            return None

    def daemon_log(self):
        try:
            return (self.directory() / "daemon.log").read_text(errors="replace")[-4000:]
        except OSError:
            return ""

    def status(self):
        done = self.call("status", "--json")
        if done.returncode != 0:
            raise FabricError(f"softib status failed ({done.returncode}): {done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def start(self, host, argv, **extra_environment):
        environment = dict(self.environment, **extra_environment)
        return Program(self.command("run", host, "--", *argv), environment, self.folder)

    def start_talking(self, host, argv):
        return Talking(self.command("run", host, "--", *argv), self.environment, self.folder)

    def run(self, host, argv, seconds=30, **extra_environment):
        """Runs to the end: (exit status or None after a time-out, output)."""
        program = self.start(host, argv, **extra_environment)
        try:
            return program.wait(seconds), program.output()
        finally:
            program.stop()


def wait_gone(pid, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False
