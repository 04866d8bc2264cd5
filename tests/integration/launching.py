#!/usr/bin/env python3
"""Jobs that mpirun starts on hosts, from a host and from a shell of the machine, and how they end.

    launching.py [--softib PATH] [--filter REGEX] [--full]

Needs root or unprivileged user namespaces; plain.py does the like without them. --full ends jobs of every launcher in
every way from everywhere.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from hosts import OTHER_USER, Places, need, same
from softib_fabric import Program, own_group
from suite import Mismatch, Skip, Suite, check, new_parser, wait_for

# Over the HCA and nothing else.
OVER_UCX = ["--mca", "pml", "ucx", "-x", "UCX_TLS=rc_v,self"]
OVER_OFI = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "verbs;ofi_rxm"]
OVER_TCP = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]


class Launcher:
    """A launcher of which ranks go to host0 and host1, and the test's program for it."""

    def __init__(self, mpi, words):
        self.mpi = mpi
        self.words = words

    def command(self, places, *words, ranks=2, options=()):
        program = pathlib.Path(places.softib).with_name(f"mpi_job_{self.mpi}")
        if not program.exists() or not shutil.which(self.words[0]):
            raise Skip(f"{self.mpi} is not installed, or was not when this was built")
        return [*self.words, "-n", str(ranks), *options, str(program), *words]


OPEN_MPI = Launcher("openmpi", ["mpirun.openmpi", "-H", "host0:4,host1:4", "--map-by", "node"])
MPICH = Launcher("mpich", ["mpirun.mpich", "-hosts", "host0,host1"])
FROM_HOST, FROM_MACHINE = "host0", None


class Shells(Places):
    """A fabric with shells on its hosts and on the machine."""

    def on_machine(self, argv):
        return argv

    def words_from(self, where, command):
        """A command on a host, or in a shell of the machine after `eval "$(softib env)"`."""
        if where:
            return self.command("run", where, "--", *command)
        quoted = " ".join(f"'{word}'" for word in command)
        return self.on_machine(self.as_user(["bash", "-c", f'eval "$("{self.softib}" env)" && exec {quoted}']))

    def launch(self, where, command, seconds=60):
        done = subprocess.run(self.words_from(where, command), env=self.environment, cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False)
        check(done.returncode == 0, f"from {where or 'the machine'}: {' '.join(command)}: status {done.returncode}\n"
              f"{done.stdout}{done.stderr}")
        return done

    def processes(self):
        """All that run for this fabric, with their first words: they know its folder by their environment."""
        wanted, found = f"SOFTIB_RUNTIME_DIR={self.environment['SOFTIB_RUNTIME_DIR']}".encode(), {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:99]
            except OSError:
                continue
        return found


class Machine(Shells):
    """Where root runs the tests, a machine with a network of its own: no other fabric has its addresses already."""

    def __init__(self, softib, *words, user=None):
        super().__init__(softib, *words, user=user)
        self.network = None
        if os.geteuid() == 0:
            setting_up = "ip link set lo up && ip link add lan0 type bridge && ip addr add 192.0.2.1/24 dev lan0 && " \
                         "ip link set lan0 up; echo; exec sleep 1000"
            self.network = subprocess.Popen(["unshare", "--net", "sh", "-c", setting_up], stdout=subprocess.PIPE)
            self.network.stdout.readline()

    def down(self):
        try:
            super().down()
        finally:
            if self.network:
                self.network.kill()
                self.network.wait()
                self.network.stdout.close()

    def on_machine(self, argv):
        return ["nsenter", f"--net=/proc/{self.network.pid}/ns/net", *argv] if self.network else argv

    def command(self, *words):
        return self.on_machine(super().command(*words))


# -- the machine, as programs on hosts see it

SERVER = """
import socket
server = socket.create_server(("0.0.0.0", 4713))
print("up", flush=True)
while True:
    client, _ = server.accept()
    client.sendall(b"the machine")
"""
CLIENT = """
import errno, fcntl, select, socket, sys
def talk(address, nonblocking):
    client = socket.socket()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.setblocking(not nonblocking)
    flags = fcntl.fcntl(client, fcntl.F_GETFD), fcntl.fcntl(client, fcntl.F_GETFL)
    assert client.connect_ex((address, 4713)) in ((0, errno.EINPROGRESS) if nonblocking else (0,)), address
    assert flags == (fcntl.fcntl(client, fcntl.F_GETFD), fcntl.fcntl(client, fcntl.F_GETFL))
    assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert select.select([client], [], [], 10)[0]
    return client.recv(99).decode()
for address in sys.argv[1:]:
    print(talk(address, False), talk(address, True))
print(errno.errorcode[socket.socket().connect_ex(("192.0.2.99", 4713))])
print(errno.errorcode[socket.socket().connect_ex((sys.argv[1], 4714))])
"""


def hosts_reach_the_machine(places):
    """By its name, and by its address on a network of its own, with which a launcher's daemons are told to report."""
    if not places.network:
        raise Skip("needs a network of the machine's own, which root makes")
    server = Program(places.on_machine([sys.executable, "-c", SERVER]), places.environment, places.folder)
    try:
        wait_for(lambda: "up" in server.output(), "the server did not start")
        said = places.text("host1", "/usr/bin/python3", "-c", CLIENT, os.uname().nodename, "192.0.2.1")
        same(said.split("\n"), ["the machine the machine"] * 2 + ["ENETUNREACH", "ECONNREFUSED"], "what was said")
    finally:
        server.stop()


# -- a job from its beginning to its end


def ranks_on_both_hosts(places, launcher, where):
    before = places.processes()
    output = places.launch(where, launcher.command(places, "greet")).stdout
    found = sorted(line for line in output.splitlines() if line.startswith("rank"))
    same(found, ["rank 0 of 2 on host0", "rank 1 of 2 on host1"], launcher.mpi)
    nobody_is_left(places, before)


def nobody_is_left(places, before):
    wait_for(lambda: places.processes().keys() <= before.keys(),
             f"left behind: {[line for pid, line in places.processes().items() if pid not in before]}")


def open_mpi_from_a_host(places):
    ranks_on_both_hosts(places, OPEN_MPI, FROM_HOST)


def open_mpi_from_the_machine(places):
    ranks_on_both_hosts(places, OPEN_MPI, FROM_MACHINE)


def mpich_from_a_host(places):
    ranks_on_both_hosts(places, MPICH, "host1")


def mpich_from_the_machine(places):
    ranks_on_both_hosts(places, MPICH, FROM_MACHINE)


def netpipe(places, where, options):
    need("NPopenmpi", "mpirun.openmpi")
    command = ["mpirun.openmpi", "-H", "host0,host1", *options, "NPopenmpi"]
    table = places.launch(where, [*command, "-l", "2048", "-u", "4096", "-p", "0", "-n", "5"]).stderr
    check(re.search(r" 4096 bytes .* Mbps in ", table), table)


def netpipe_over_ucx(places):
    for where in (FROM_HOST, FROM_MACHINE):
        netpipe(places, where, OVER_UCX)


def netpipe_over_libfabric_and_tcp(places):
    netpipe(places, FROM_MACHINE, OVER_OFI)
    netpipe(places, FROM_HOST, OVER_TCP)


def collectives(places, launcher, where, ranks, options=()):
    sizes = ("1", "1000", "40000") if ranks == 2 else ("1000",)
    command = launcher.command(places, "collectives", *sizes, ranks=ranks, options=options)
    output = places.launch(where, command, seconds=120).stdout
    same(output.strip(), f"collectives of {ranks} ranks right", f"{launcher.mpi}, {' '.join(options)}")


def collectives_of_open_mpi(places):
    for ranks, where in ((2, FROM_HOST), (4, FROM_MACHINE), (8, FROM_HOST)):
        collectives(places, OPEN_MPI, where, ranks, ["--mca", "pml", "ucx", "-x", "UCX_TLS=rc_v,ud_v,self"])
    for options in (OVER_OFI, OVER_TCP):
        collectives(places, OPEN_MPI, FROM_HOST, 2, options)


def collectives_of_mpich(places):
    for ranks, where in ((2, FROM_MACHINE), (4, FROM_HOST), (8, FROM_MACHINE)):
        collectives(places, MPICH, where, ranks, ["-genv", "UCX_TLS", "rc_v,ud_v,self"])


def ucx_registers_more_than_users_may_lock(places):
    collectives(places, MPICH, FROM_MACHINE, 2)


# -- a job that is ended


class Job:
    """A running job whose ranks meet all the time."""

    def __init__(self, places, launcher, where):
        self.places = places
        self.before = places.processes()
        self.process = subprocess.Popen(places.words_from(where, launcher.command(places, "wait")),
                                        env=places.environment, cwd=places.folder, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **own_group())
        self.output = ""
        while "all here" not in self.output:
            line = self.process.stdout.readline()
            check(line, f"{launcher.mpi} ended: {self.output}")
            self.output += line

    def ranks(self):
        return [pid for pid, line in self.places.processes().items()
                if pid not in self.before and pathlib.Path(line.split()[0]).name.startswith("mpi_job_")]

    def conclude(self):
        """The exit status, once nothing is left."""
        try:
            status = self.process.wait(30)
        except subprocess.TimeoutExpired as late:
            raise Mismatch(f"the job goes on: {self.places.processes()}") from late
        finally:
            self.stop()
        nobody_is_left(self.places, self.before)
        return status

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()


def kill_rank(job):
    ranks = job.ranks()
    same(len(ranks), 2, f"ranks of {job.places.processes()}")
    os.kill(ranks[-1], signal.SIGKILL)


def kill_launcher(job):
    job.process.kill()


def interrupt(job):
    """Ctrl-C: the whole foreground group gets it."""
    os.killpg(job.process.pid, signal.SIGINT)


def terminate(job):
    job.process.terminate()


ENDS = (kill_rank, kill_launcher, interrupt, terminate)


def end_of_job(places, launcher, where, end):
    job = Job(places, launcher, where)
    end(job)
    status = job.conclude()
    # Hydra calls an interrupted job a success.
    check(status != 0 or (launcher is MPICH and end in (interrupt, terminate)),
          f"{launcher.mpi} from {where}, {end.__name__}: status {status}\n{job.output}")


def a_killed_rank_ends_the_job(places):
    for launcher in (OPEN_MPI, MPICH):
        end_of_job(places, launcher, FROM_HOST, kill_rank)


def a_killed_mpirun_ends_the_job(places):
    for launcher in (OPEN_MPI, MPICH):
        end_of_job(places, launcher, FROM_HOST, kill_launcher)
        end_of_job(places, launcher, FROM_MACHINE, kill_launcher)


def an_interrupt_ends_the_job(places):
    end_of_job(places, OPEN_MPI, FROM_HOST, interrupt)
    end_of_job(places, MPICH, FROM_MACHINE, interrupt)


def every_end_from_everywhere(places):
    for launcher in (OPEN_MPI, MPICH):
        for where in (FROM_HOST, FROM_MACHINE):
            for end in ENDS:
                begin = time.monotonic()
                end_of_job(places, launcher, where, end)
                print(f"      {launcher.mpi} from {where or 'the machine'}, {end.__name__}: "
                      f"{time.monotonic() - begin:.1f} s", flush=True)


FROM_ANYWHERE = [hosts_reach_the_machine, open_mpi_from_a_host, open_mpi_from_the_machine, mpich_from_a_host,
                 mpich_from_the_machine]
CASES = [*FROM_ANYWHERE, netpipe_over_ucx, netpipe_over_libfabric_and_tcp, collectives_of_open_mpi,
         collectives_of_mpich, a_killed_rank_ends_the_job, a_killed_mpirun_ends_the_job, an_interrupt_ends_the_job]


def on_machine(suite, cases, **more):
    cases = suite.chosen(cases)
    if not cases:
        return
    try:
        with Machine(suite.arguments.softib, **more) as places:
            suite.run_each(cases, places)
    except Skip as reason:
        suite.skip_each(cases, reason)


def main():
    parser = new_parser(__doc__)
    parser.add_argument("--full", action="store_true", help="end jobs in every way, from everywhere")
    suite = Suite(parser)
    cases = [*CASES, every_end_from_everywhere] if suite.arguments.full else CASES
    on_machine(suite, cases)
    if os.geteuid() == 0:
        print("as another user:")
        on_machine(suite, cases if suite.arguments.full else [*FROM_ANYWHERE, ucx_registers_more_than_users_may_lock],
                   user=OTHER_USER)
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
