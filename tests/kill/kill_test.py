#!/usr/bin/env python3
"""The killing test: random SIGKILLs of one side (or both) under RDMA traffic between host0 and host1.

    kill_test.py [--count 40] [--seed N] [--link-layer infiniband|ethernet] [--softib PATH] [--traffic PATH]

Each round runs kill_traffic on both hosts and kills one of them at a random moment, in the middle of traffic or while
connections are made. The survivor must see IBV_WC_RETRY_EXC_ERR on each queue pair, once, after the retries' time, and
IBV_WC_WR_FLUSH_ERR for all the rest; softibd must hold nothing of the dead. A second pair of programs talks all the
time and must notice nothing. At the end memory and descriptors must be where they were at the start.
"""

import argparse
import json
import os
import pathlib
import queue
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from softib_fabric import ROOT, Fabric, FabricError, default_softib, end_in_order, own_group  # noqa: E402

RETRY_EXC_ERR = 12
ACK_TIMEOUT_NS = 4096 * 2 ** 11  # as in worker.h
RETRIES = 5
AGENT_BOUNCE = 256 * 1024  # what a living process has in the arena beside its rings
SERVED_FDS = 4  # what softibd holds for a living process without objects
# What a survivor may keep of the last dead until it next talks to somebody; it maps a peer's memory in several pieces.
KEPT = {"fds": 2, "memfd_maps": 6}
MIB = 1 << 20


class Wrong(Exception):
    """Something that must not be."""


def check(condition, what):
    if not condition:
        raise Wrong(what)


class Side:
    """A kill_traffic process, its pid and the events that it prints."""

    def __init__(self, fabric, host, words):
        self.words = words
        self.events = queue.Queue()
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(fabric.command("run", host, "--", *words), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=fabric.folder,
                                        env=fabric.environment, **own_group())
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.pid = self.process.pid
        self.met = self.ended = 0

    def read(self):
        for line in self.process.stdout:
            try:
                self.events.put(json.loads(line))
            except ValueError:
                self.events.put({"event": "garbage", "text": line})
        self.events.put({"event": "eof"})

    def wait_event(self, *names, seconds=60):
        """The next event of one of these names; others are passed over, the end of the program is an error."""
        end = time.monotonic() + seconds
        while True:
            try:
                event = self.events.get(timeout=max(end - time.monotonic(), 0.01))
            except queue.Empty:
                raise Wrong(f"{self.words[1]}er {self.pid}: no {'/'.join(names)} within {seconds} s") from None
            self.met += event["event"] == "met"
            self.ended += event["event"] == "session"
            if event["event"] in names:
                return event
            if event["event"] in ("eof", "garbage"):
                raise Wrong(f"{self.words[1]}er {self.pid}: {event}; status {self.process.wait()}; {self.complaints()}")

    def started(self):
        self.pid = self.wait_event("start")["pid"]
        return self

    def kill(self):
        """Gives the time just before the kill."""
        now = time.monotonic_ns()
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return now

    def complaints(self):
        self.errors.seek(0)
        return self.errors.read()[-2000:]

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.errors.close()


def process_figures(pid):
    """Open descriptors, mappings of memory files, resident bytes."""
    base = pathlib.Path(f"/proc/{pid}")
    maps = (base / "maps").read_text().splitlines()
    return {"fds": len(os.listdir(base / "fd")), "memfd_maps": sum("/memfd:" in line for line in maps),
            "rss": int((base / "statm").read_text().split()[1]) * 4096}


def open_files(pid):
    base = f"/proc/{pid}/fd"
    names = {}
    for fd in os.listdir(base):
        try:
            names[int(fd)] = os.readlink(f"{base}/{fd}")
        except OSError:
            continue
    return ", ".join(f"{fd} {name}" for fd, name in sorted(names.items()))


def check_lost(session, killed_ns):
    """What the survivor of a kill in mid-traffic must tell."""
    check(session["outcome"] == "peer_lost", f"outcome {session['outcome']}: {session['fault']}: {session['qps']}")
    delays = []
    for qp in session["qps"]:
        check(qp["first_error"] == RETRY_EXC_ERR, f"first error {qp}")
        check(qp["posted"] == qp["done"] and qp["receives"] == 0, f"lost completions {qp}")
        delays.append(qp["first_error_ns"] - killed_ns)
    check(min(delays) >= RETRIES * ACK_TIMEOUT_NS * 0.9, f"gave up after {min(delays) / 1e6:.1f} ms: too early")
    return delays


class KillTest:
    def __init__(self, fabric, arguments):
        self.fabric = fabric
        self.arguments = arguments
        self.random = random.Random(arguments.seed)
        self.sockets = tempfile.mkdtemp(prefix="softib-kill-")
        self.listener_number = 0
        self.server = None
        self.server_figures = None
        self.setup_seconds = [0.2]
        self.delays = []

    def side(self, host, role, path):
        return Side(self.fabric, host, [self.arguments.traffic, role, path, str(self.arguments.workers)])

    def start_server(self):
        self.listener_number += 1
        self.path = f"{self.sockets}/{self.listener_number}"
        self.server = self.side("host0", "listen", self.path).started()
        self.server_figures = None

    def start_bystanders(self):
        path = f"{self.sockets}/bystander"
        self.bystanders = [self.side("host0", "listen", path).started(), self.side("host1", "connect", path).started()]
        for side in self.bystanders:
            side.wait_event("running")
        time.sleep(1)  # until they have opened what they open at first use

    # -- what must be the same before and after ----------------------------------------------------------------------

    def figures(self):
        status = self.fabric.status()
        return {"objects": {k: v for k, v in status["objects"].items() if v}, "arena": status["memory"]["arena_bytes"],
                "segment": status["memory"]["segment_bytes"], "processes": {p["pid"] for p in status["processes"]},
                "daemon": process_figures(self.fabric.daemon_pid()),
                "bystanders": [process_figures(side.pid) for side in self.bystanders]}

    def wait_clean(self, seconds=5):
        """Until softibd holds only what the bystanders have."""
        end = time.monotonic() + seconds
        while True:
            now = self.figures()
            extra = now["processes"] - self.start["processes"]
            strangers = extra - {self.server.pid if self.server else 0}
            arena = self.start["arena"] + len(extra) * AGENT_BOUNCE
            settled = now["daemon"]["fds"] <= self.start["daemon"]["fds"] + len(extra) * SERVED_FDS
            if now["objects"] == self.start["objects"] and now["arena"] <= arena and not strangers and settled:
                return now
            if time.monotonic() > end:
                raise Wrong(f"softibd still holds: processes {strangers}, objects {now['objects']} "
                            f"(at the start {self.start['objects']}), rings of {now['arena']} bytes (at most {arena}), "
                            f"descriptors {now['daemon']['fds']} ({self.start['daemon']['fds']} at the start)")
            time.sleep(0.02)

    def check_server_figures(self, in_setup):
        """A survivor doesn't keep the dead one's memory or descriptors. The first full session may leave what stays."""
        if self.server_figures is None:
            if not in_setup:
                self.server_figures = process_figures(self.server.pid)
            return
        end = time.monotonic() + 5
        while True:
            # It may only now come to a connection that was made before the kill.
            now = process_figures(self.server.pid)
            worse = [f"{k}: {self.server_figures[k]} -> {now[k]}" for k, kept in KEPT.items()
                     if now[k] > self.server_figures[k] + kept]
            if not worse:
                return
            check(time.monotonic() < end, f"the survivor's {'; '.join(worse)}: {open_files(self.server.pid)}")
            time.sleep(0.02)

    def compare_end(self, end):
        start = self.start
        check(end["daemon"]["fds"] <= start["daemon"]["fds"],
              f"softibd's descriptors: {start['daemon']['fds']} -> {end['daemon']['fds']}")
        # Pages of the tables stay once they were touched.
        check(end["segment"] - start["segment"] <= 8 * MIB, f"segment: {start['segment']} -> {end['segment']} bytes")
        grown = end["daemon"]["rss"] - start["daemon"]["rss"]
        # The segment's pages that softibd touched count as resident too.
        check(grown <= 12 * MIB, f"softibd's memory grew by {grown} bytes")
        for before, after in zip(start["bystanders"], end["bystanders"]):
            for key, kept in KEPT.items():
                check(after[key] <= before[key] + kept, f"a bystander's {key}: {before[key]} -> {after[key]}")
        fds = end["daemon"]["fds"] - start["daemon"]["fds"]
        segment = (end["segment"] - start["segment"]) / 1024
        print(f"softibd: descriptors {fds:+d}, memory {grown / 1024:+.0f} KiB; segment {segment:+.0f} KiB, "
              f"rings {end['arena'] - start['arena']:+d} bytes")

    # -- a round -----------------------------------------------------------------------------------------------------

    def round(self):
        """Gives a word on what was done."""
        victim = self.random.choices(["client", "server", "both"], [7, 4, 1])[0]
        victim = self.arguments.victim or victim
        in_setup = self.random.random() < 0.25
        client = self.side("host1", "connect", self.path)
        try:
            if in_setup:
                self.kill_in_setup(client, victim)
            else:
                self.kill_in_traffic(client, victim)
        finally:
            client.close()
        if victim != "client":
            self.server.close()
            self.start_server()
        self.wait_clean()
        if victim == "client":
            self.check_server_figures(in_setup)
        return f"{victim} {'while connecting' if in_setup else 'in traffic'}"

    def kill_in_traffic(self, client, victim):
        begin = time.monotonic()
        client.started().wait_event("running")
        self.server.wait_event("running")
        self.setup_seconds.append(time.monotonic() - begin)
        time.sleep(self.random.uniform(0, 0.06))
        sides = {"client": client, "server": self.server}
        if victim == "both":
            for side in sides.values():
                side.kill()
            return
        killed = sides[victim].kill()
        survivor = sides["server" if victim == "client" else "client"]
        self.delays += check_lost(survivor.wait_event("session"), killed)
        if victim == "server":
            check(client.process.wait(10) == 0, f"the surviving client ended with {client.process.returncode}")

    def kill_in_setup(self, client, victim):
        """Nobody knows how far they were; the survivor must come to an end all the same, and rightly."""
        client.started()
        time.sleep(self.random.uniform(0, 1.2 * statistics.median(self.setup_seconds)))
        if victim != "client":
            self.server.kill()
        if victim != "server":
            client.kill()
        if victim == "server":
            self.check_setup_outcome(client.wait_event("session", "eof"))
            check(client.process.wait(10) in (0, 5), f"the client ended with {client.process.returncode}: "
                  f"{client.complaints()}")
        if victim == "client":
            time.sleep(0.1)
            self.wait_server_idle()

    def wait_server_idle(self):
        while True:
            try:
                event = self.server.events.get_nowait()
            except queue.Empty:
                if self.server.met == self.server.ended:
                    return
                event = self.server.events.get(timeout=60)
            self.server.met += event["event"] == "met"
            self.server.ended += event["event"] == "session"
            check(event["event"] != "eof", f"the server ended: {self.server.complaints()}")
            self.check_setup_outcome(event)

    @staticmethod
    def check_setup_outcome(event):
        check(event.get("outcome", "setup") in ("setup", "peer_lost"), f"{event}")

    # -- all ---------------------------------------------------------------------------------------------------------

    def run(self):
        self.start_bystanders()
        # `softib status` is a connection too, which softibd may still have open when it is looked at.
        self.start = min((self.figures() for _ in range(3)), key=lambda f: f["daemon"]["fds"])
        self.start_server()
        for number in range(1, self.arguments.count + 1):
            what = "-"
            try:
                what = self.round()
            except (Wrong, queue.Empty, OSError) as error:
                raise Wrong(f"round {number}: {error!r}") from error
            finally:
                if self.arguments.verbose:
                    print(f"round {number}: {what}", flush=True)
            for side in self.bystanders:
                check(side.process.poll() is None, f"round {number}: a bystander ended: {side.complaints()}")
        self.server.kill()
        self.server.close()
        self.server = None
        self.compare_end(self.wait_clean())
        self.end_bystanders()

    def end_bystanders(self):
        os.kill(self.bystanders[0].pid, signal.SIGTERM)
        for side in self.bystanders:
            session = side.wait_event("session")
            check(session["outcome"] == "finished", f"a bystander saw {session}")
            check(all(qp["good"] > 0 for qp in session["qps"]), f"a bystander stood still: {session}")

    def close(self):
        for side in [self.server, *getattr(self, "bystanders", [])]:
            if side and side.process.poll() is None:
                side.close()
        shutil.rmtree(self.sockets, ignore_errors=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--link-layer", choices=["infiniband", "ethernet"], default="infiniband")
    parser.add_argument("--softib", default=default_softib())
    parser.add_argument("--traffic", default=str(ROOT / "build/release/bin/kill_traffic"))
    parser.add_argument("--victim", choices=["client", "server", "both"], help="always this one")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def main():
    arguments = parse()
    print(f"seed {arguments.seed}, {arguments.count} kills", flush=True)
    failure = None
    end_in_order()
    with Fabric(arguments.softib, arguments.link_layer) as fabric:
        test = KillTest(fabric, arguments)
        try:
            test.run()
        except (Wrong, FabricError, OSError) as error:
            failure = error
            print(f"softibd's log:\n{fabric.daemon_log()}\nFAIL: {error}")
        finally:
            test.close()
    if test.delays:
        milliseconds = sorted(d / 1e6 for d in test.delays)
        print(f"time to RETRY_EXC_ERR: {milliseconds[0]:.0f} ms least, {statistics.median(milliseconds):.0f} ms median,"
              f" {milliseconds[-1]:.0f} ms most ({RETRIES} retries of {ACK_TIMEOUT_NS / 1e6:.1f} ms)")
    if failure:
        print(f"run again with: kill_test.py --seed {arguments.seed} --count {arguments.count}")
    print(f"{0 if failure else arguments.count} passed, {1 if failure else 0} failed, 0 skipped")
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
