#!/usr/bin/env python3
"""all_reduce_perf and its like: started in every way, right, and found out where they aren't; what they write is read
by a reader for nccl-tests.

    perf.py [--softib PATH] [--programs FOLDER] [--filter REGEX] [--full]

--full: all programs with all types and operators on 1 to 9 ranks, and jobs that are ended in every way.
"""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.dom.minidom

import nccl_tests_output
from hosts import Places
from softib_fabric import Fabric, free_port, own_group
from suite import Skip, Suite, check, new_parser, report, wait_for

COLLECTIVES = ["all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter", "alltoall", "alltoallv", "gather",
               "scatter", "sendrecv", "hypercube"]
HOSTS = ["--hosts", "host0,host1"]
SHORT = ["-b", "1K", "-e", "64K", "-f", "8", "-n", "2"]
REDUCING = {"all_reduce", "reduce", "reduce_scatter", "sendrecv"}
UNCHECKED_IN_PLACE = {"alltoallv", "sendrecv"}


class Job:
    """A fabric, and these programs on it or on the machine."""

    def __init__(self, fabric, programs):
        self.fabric = fabric
        self.programs = programs
        self.environment = dict(fabric.environment)
        self.environment["PATH"] = f"{os.path.dirname(fabric.softib)}:{self.environment['PATH']}"

    def words(self, name, *words):
        return [str(self.programs / f"{name}_perf"), *words]

    def call(self, argv, status=0, seconds=120, **variables):
        done = subprocess.run(argv, env=dict(self.environment, **variables), cwd=self.fabric.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False)
        check(done.returncode == status, f"{' '.join(argv)}: status {done.returncode}, not {status}\n"
              f"{done.stdout}{done.stderr}")
        return done

    def run(self, name, *words, **how):
        return self.call(self.words(name, *words), **how)

    def start(self, *argv):
        return subprocess.Popen(argv, env=self.environment, cwd=self.fabric.folder, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **own_group())

    def processes(self):
        """Ranks and launchers of this job, by id."""
        wanted, found = f"SOFTIB_RUNTIME_DIR={self.environment['SOFTIB_RUNTIME_DIR']}".encode(), {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if "_perf" in line and wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = line
            except OSError:
                continue
        return found

    def nobody_is_left(self):
        wait_for(lambda: not self.processes(), f"left behind: {self.processes()}")


def good(output, name, ranks, rows=None):
    """What a run wrote, read; all of it right."""
    read = nccl_tests_output.read(output)
    check(len(read.devices) == ranks, f"{name}: {len(read.devices)} devices\n{output}")
    check(read.out_of_bounds == 0 and read.bandwidth is not None, f"{name}:\n{output}")
    check(rows is None or len(read.rows) == rows, f"{name}: {len(read.rows)} rows\n{output}")
    for row in read.rows:
        check(row.out_of_place.wrong == 0, f"{name}: {row}")
        check(row.in_place.wrong == (None if name in UNCHECKED_IN_PLACE else 0), f"{name}: {row}")
    return read


def rows_of(name, ranks, each, roots=1):
    if name == "hypercube" and ranks & (ranks - 1):
        return 0
    return each * (roots if name in ("broadcast", "reduce", "gather", "scatter") else 1)


# -- right


def every_program_on_one_host(job):
    for name in COLLECTIVES:
        output = job.run(name, "-np", "3" if name != "hypercube" else "4", *SHORT).stdout
        good(output, name, 4 if name == "hypercube" else 3, 3)


def numbers_of_ranks(job):
    for ranks in (1, 2, 5, 9):
        good(job.run("all_reduce", "-np", str(ranks), "-b", "4", "-e", "4K", "-f", "1000", "-n", "1").stdout,
             "all_reduce", ranks, 2)


def every_type_and_operator(job):
    for name, words in (("all_reduce", []), ("reduce_scatter", []), ("reduce", ["-r", "1"])):
        output = job.run(name, "-np", "2", "-d", "all", "-o", "all", "-b", "4K", "-e", "4K", "-n", "1", *words).stdout
        good(output, name, 2, 72)


def threads_and_processes(job):
    good(job.run("all_gather", "-np", "2", "-t", "2", *SHORT).stdout, "all_gather", 4, 3)


def threads_have_processors_of_their_own(job):
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one processor")
    for words in (["-g", "2"], ["-t", "2"], ["-np", "1", "-t", "2"]):
        output = job.run("all_reduce", *words, *SHORT).stdout
        good(output, "all_reduce", 2, 3)
        places = re.findall(r"device +\d+ \[(\S+)\]", output)
        check(len(set(places)) == 2, f"{words}: {output}")


def one_rank_is_told_that_it_is_alone(job):
    check("one rank alone; -np N" in job.run("all_reduce", *SHORT).stderr, "nothing told")
    for words in (["-np", "1"], ["-t", "2"], ["-np", "2"]):
        check("alone" not in job.run("all_reduce", *words, *SHORT).stderr, f"{words}")


def ordinary_memory(job):
    good(job.run("all_reduce", "-np", "2", "--ordinary", *SHORT).stdout, "all_reduce", 2, 3)


def groups_side_by_side(job):
    output = job.run("all_reduce", "-np", "4", *SHORT, NCCL_TESTS_SPLIT="MOD 2").stdout
    groups = [device.group for device in good(output, "all_reduce", 4, 3).devices]
    check(groups == [0, 1, 0, 1], output)


def everything_on_one_to_nine_ranks(job):
    for name in COLLECTIVES:
        for ranks in range(1, 10):
            begin = time.monotonic()
            output = job.run(name, "-np", str(ranks), "-d", "all", "-o", "all", "-r", "-1", "-b", "4K", "-e", "68K",
                             "-f", "17", "-n", "1", seconds=600).stdout
            each = 12 * 2 * (6 if name in REDUCING else 1)
            good(output, name, ranks, rows_of(name, ranks, each, ranks))
            print(f"      {name} on {ranks} ranks: {time.monotonic() - begin:.1f} s", flush=True)


# -- started


def programs_between_hosts(job):
    for name in ("all_reduce", "alltoallv", "sendrecv"):
        read = good(job.run(name, *HOSTS, *SHORT).stdout, name, 2, 3)
        check([device.host for device in read.devices] == ["host0", "host1"], f"{read.devices}")
    read = good(job.run("all_reduce", "--hosts", "host1:2,host0", *SHORT).stdout, "all_reduce", 3, 3)
    check([(device.host, device.index) for device in read.devices] == [("host1", 0), ("host1", 1), ("host0", 0)],
          f"{read.devices}")


def every_program_between_hosts(job):
    for name in COLLECTIVES:
        good(job.run(name, "--hosts", "host0:2,host1:2", *SHORT).stdout, name, 4, 3)


def by_another_agent(job):
    """As ssh: it is given a host and a word for the shell there."""
    agent = pathlib.Path(job.fabric.folder) / "agent"
    agent.write_text('#!/bin/sh\n[ "$1" = -x ] || exit 9\nshift 2\nexec sh -c "$*"\n')
    agent.chmod(0o755)
    output = job.run("all_gather", "--hosts", "a,b:2", "--agent", f"{agent} -x", *SHORT).stdout
    good(output, "all_gather", 3, 3)


def mpirun(job, *words):
    if not shutil.which(words[0]):
        raise Skip(f"{words[0]} is not installed")
    quoted = " ".join(f"'{word}'" for word in [*words, *job.words("all_reduce", *SHORT)])
    return ["bash", "-c", f'eval "$("{job.fabric.softib}" env)" && exec {quoted}']


def under_open_mpi(job):
    output = job.call(mpirun(job, "mpirun.openmpi", "-np", "2", "-H", "host0,host1")).stdout
    read = good(output, "all_reduce", 2, 3)
    check([device.host for device in read.devices] == ["host0", "host1"], output)


def under_mpich(job):
    output = job.call(mpirun(job, "mpirun.mpich", "-np", "3", "-hosts", "host0,host1")).stdout
    read = good(output, "all_reduce", 3, 3)
    check([device.host for device in read.devices] == ["host0", "host1", "host0"], output)


def one_by_one(job):
    variables = {"SOFTIB_COMM_ID": f"127.0.0.1:{free_port()}", "WORLD_SIZE": "2"}
    programs = [job.fabric.start(f"host{rank}", job.words("broadcast", *SHORT), RANK=str(rank), **variables)
                for rank in (0, 1)]
    try:
        for program in programs:
            check(program.wait(60) == 0, program.output())
        good(programs[0].output(), "broadcast", 2, 3)
        check(programs[1].output() == "", programs[1].output())
    finally:
        for program in programs:
            program.stop()


def by_softib_run(job):
    """On all hosts, and on those that are named."""
    softib = job.fabric.softib
    for hosts, ranks in (("all",), 2), (("host1", "host0", "host1"), 3):
        command = [softib, "run", "--no-prefix", *hosts, "--", *job.words("all_gather", *SHORT)]
        good(job.call(command).stdout, "all_gather", ranks, 3)
    good(job.call([softib, "run", "host0", "--", *job.words("all_gather", *SHORT)]).stdout, "all_gather", 1, 3)


# -- wrong


def a_wrong_element_is_found_out(job):
    program = str(job.programs / "all_reduce_perf_planted")
    for words in (["-np", "2"], HOSTS):
        output = job.call([program, *words, *SHORT], status=7).stdout
        read = nccl_tests_output.read(output)
        check(read.out_of_bounds == 6, output)
        check(all(row.out_of_place.wrong == 1 and row.in_place.wrong == 1 for row in read.rows), output)


def too_slow_is_a_failure(job):
    output = job.run("all_reduce", "-np", "2", *SHORT, status=7, NCCL_TESTS_MIN_BW="1e6").stdout
    check("# Avg bus bandwidth" in output and " FAILED\n" in output, output)


def wrong_usage(job):
    for words, told in ((["-np", "2", "-d", "float99"], "there is no 'float99'; there are int8 "),
                        (["-np=2", "-o", "SUM"], "there are sum prod "), (["-b", "2K", "-e", "1K"], "2048 > 1024"),
                        (["--hosts", "host0:x"], "host0:2"), (["--hosts", ""], "names no host"), (["--what"], "--what"),
                        (["-np", "2", "-G", "1"], "graphs"), (["-np", "3", "--hosts", "host0,host1"], "2 places")):
        done = job.run("all_reduce", *words, status=6)
        check(done.stdout == "" and told in done.stderr, f"{words}: {done}")
    check("usage" in job.run("all_reduce", "-h").stdout.lower(), "no help")
    done = job.run("broadcast", "-np", "2", "-r", "2", *SHORT, status=6)
    check("there are 2 ranks" in done.stderr, done.stderr)
    done = job.run("all_reduce", status=6, RANK="0", WORLD_SIZE="2")
    check("SOFTIB_COMM_ID" in done.stderr, done.stderr)


def a_fabric_with_another_name(job):
    """Those who don't name it are told of it."""
    with Fabric(job.fabric.softib, name="lab") as fabric:
        environment = fabric.environment | {"PATH": job.environment["PATH"]}
        line = " ".join(job.words("all_reduce", *HOSTS, *SHORT))
        for shell, status, told in ((line, 255, "'lab' runs (--name lab)"),
                                    (f'eval "$(softib env --name lab)"; {line}', 0, "")):
            done = subprocess.run(["sh", "-c", shell], env=environment, cwd=fabric.folder, capture_output=True,
                                  text=True, timeout=120, check=False)
            check(done.returncode == status and told in done.stderr, f"{shell}: {done}")


def a_host_that_is_not_there(job):
    done = subprocess.run(job.words("all_reduce", "--hosts", "host0,nohost", *SHORT), env=job.environment,
                          cwd=job.fabric.folder, capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 255 and "nohost" in done.stderr, f"{done}")
    job.nobody_is_left()


# -- written


def a_reader_for_nccl_tests_reads_both(job):
    theirs = nccl_tests_output.read(nccl_tests_output.RECORDED)
    output = job.run("all_reduce", "-np", "2", "-b", "64K", "-e", "128K", "-f", "2", "-n", "1").stdout
    ours = good(output, "all_reduce", 2)
    for read in (theirs, ours):
        check([row.size for row in read.rows][0] == 65536 and len(read.rows) == 2, f"{read.rows}")
        check([(device.rank, device.group, device.index) for device in read.devices] == [(0, 0, 0), (1, 0, 1)],
              f"{read.devices}")
        check(read.settings[4:6] == ("2", "factor") and read.bandwidth > 0, f"{read}")
        for side in (read.rows[0].out_of_place, read.rows[0].in_place):
            check(side.wrong == 0 and side.time > 0, f"{side}")
    for row in ours.rows:  # 2 (n - 1) / n is 1 for two ranks
        check(abs(row.out_of_place.algbw - row.out_of_place.busbw) < 0.011, f"{row}")


def json_and_plot(job):
    folder = pathlib.Path(job.fabric.folder)
    job.run("all_reduce", "-np", "2", *SHORT, "-I", "1", "-J", "x.json", "--plot", "x.svg")
    written = json.loads((folder / "x.json").read_text())
    check(written["version"] == 3 and written["config"]["step_factor"] == 8, f"{written['config']}")
    check([device["rank"] for device in written["config"]["devices"]] == [0, 1], f"{written['config']}")
    check([result["size"] for result in written["results"]] == [1024, 8192, 65536], "sizes")
    for result in written["results"]:
        check(result["out_of_place"]["nwrong"] == 0 and result["in_place"]["bus_bw"] >= 0, f"{result}")
        times = result["out_of_place_per_iter"]
        check(len(times["per_process_max_times_us"]) == 2 and len(times["times_us"]) == 2, f"{times}")
    check(written["out_of_bounds"] == {"count": 0, "okay": "true"} and written["errors"] == [], "verdict")
    drawing = xml.dom.minidom.parse(str(folder / "x.svg"))
    check(len(drawing.getElementsByTagName("circle")) == 6, "points of three sizes, in place and out of place")


def what_cannot_be_written_is_told_first(job):
    words = ["-J", "/nonexistent/x.json", "--plot", "/nonexistent/x.svg"]
    output = job.run("all_reduce", "-np", "2", *SHORT, *words).stdout
    told = output[:output.index("# Using devices")]
    check("# skipping json output; /nonexistent/x.json: No such file" in told, output)
    check("# skipping the plot; /nonexistent/x.svg can't be written: No such file" in told, output)
    good(output, "all_reduce", 2, 3)


def variables_are_heeded_or_told_of(job):
    def told(**variables):
        return job.run("all_reduce", "-np", "2", *SHORT, **variables).stderr
    version = r" SOFTIB VERSION \d+\.\d+\.\d+$"
    for level, times in (("VERSION", 1), ("WARN", 0), ("INFO", 1)):
        lines = told(SOFTIB_DEBUG=level)
        check(len(re.findall(version, lines, re.M)) == times, f"{level}: {lines}")
    lines = told(SOFTIB_IB_MR_CACHES="1")
    check(lines.count("WARN SOFTIB_IB_MR_CACHES is no variable; did you mean SOFTIB_IB_MR_CACHE?\n") == 2, lines)
    lines = told(SOFTIB_ALGO="gather:ring")
    check("gather isn't done by ring, but by binomial, direct; allowed is" in lines, lines)


def on_terminal(job, *words):
    """What a terminal gets."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(job.words("all_reduce", *words), env=job.environment, cwd=job.fabric.folder,
                               stdin=subprocess.DEVNULL, stdout=follower, stderr=follower, **own_group())
    os.close(follower)
    text = b""
    while select.select([leader], [], [], 60)[0]:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # its last user has gone
            break
        if not piece:
            break
        text += piece
    os.close(leader)
    check(process.wait(10) == 0, text.decode())
    return text.decode().replace("\r\n", "\n")


def a_bar_on_a_terminal_only(job):
    check("\033" not in job.run("all_reduce", "-np", "2", *SHORT).stderr, "a bar in a file")
    seen = on_terminal(job, "-np", "2", *SHORT)
    check("  1/3 8 KiB float sum" in seen and "\033[K" in seen, repr(seen))
    # Without what the bar wrote and took away, it is as ever.
    good(re.sub(r"\r\033\[K[^\n]*\r\033\[K", "", seen), "all_reduce", 2, 3)


# -- tuned

TUNED = ["-b", "64", "-e", "64K", "-f", "32", "--seconds", "1", "--collectives", "all_reduce"]


def tune(job, *words, **how):
    return job.call([job.fabric.softib, "coll", "tune", *words], **how)


def tuning_is_written_and_used(job):
    """What it says is best is what the library then does."""
    output = tune(job, "-np", "2", *TUNED, "--collectives", "broadcast", "-o", "tuning").stdout
    check(re.search(r"^\d of 6 choices are other than by the model", output, re.M), output)
    path = pathlib.Path(job.fabric.folder) / "tuning"
    lines = [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]
    check({line[0] for line in lines} == {"all_reduce", "broadcast"} and all(line[1:3] == ["2", "1"] for line in lines),
          path.read_text())
    told = job.run("all_reduce", "-np", "2", "-b", "64K", "-e", "64K", "-n", "1", SOFTIB_TUNING_FILE=str(path),
                   SOFTIB_DEBUG="INFO", SOFTIB_DEBUG_SUBSYS="TUNING").stderr
    chosen = [line[4] for line in lines if line[0] == "all_reduce"][-1]
    check(re.search(rf"all_reduce of 65536 bytes: {chosen}, .*SOFTIB_TUNING_FILE", told), f"{chosen}\n{told}")


def tuning_is_checked(job):
    """A file that sends everything round in 200 pieces is found out; it may be as slow as it likes."""
    path = pathlib.Path(job.fabric.folder) / "bad"
    path.write_text("all_reduce * * * ring 200\n")
    words = [*TUNED, "--check", str(path)]
    output = tune(job, *HOSTS, *words, status=7).stdout
    check("file: ring, 200 lanes" in output and "slower than the best" in output, output)
    tune(job, *HOSTS, *words, "--tolerance", "1e9", SOFTIB_ALGO="chain")
    path.write_text("all_reduce 3 * * ring 1\nbroadcast * * * chain 1\n")
    errors = tune(job, "-np", "2", *words, status=6).stderr
    check(errors.count(f"no line of {path} is for 2 ranks on 1 host ") == 1 and "-o FILE" in errors, errors)
    path.write_text("all_reduce ring\n")
    errors = tune(job, "-np", "2", *words, status=3).stderr
    check(errors == f"softib coll tune: {path}: line 1: a line has 6 or 7 words: collective, ranks, hosts, up to, "
          "algorithm, lanes and, if need be, window\n", errors)


def one_pass_of_tuning_is_told(job):
    words = ["-np", "2", "-e", "64K", "--seconds", "0.1", "--collectives", "all_reduce", "-o", "tuning"]
    before = set(pathlib.Path(tempfile.gettempdir()).glob("softib-tune-*"))
    done = tune(job, *words)
    text = (pathlib.Path(job.fabric.folder) / "tuning").read_text()
    if "# Times are those of the slowest rank, of one pass;" not in text:
        raise Skip("this machine makes several passes in 0.1 s")
    check(re.search(r"--seconds 0.1 was enough for one pass.* --seconds \d+ is enough for 3", done.stderr), done.stderr)
    check("us, once" in text and "+-" not in text, text)
    check(set(pathlib.Path(tempfile.gettempdir()).glob("softib-tune-*")) <= before, "left behind")


def tuning_needs_ranks(job):
    check("one rank has nothing to choose" in tune(job, *TUNED, status=6).stderr, "one rank")
    check("no collective" in tune(job, "--collectives", "barrier", status=6).stderr, "barrier")
    check("--check" in tune(job, "--help").stdout, "no help")


# -- ended

ENDLESS = ["-b", "64K", "-e", "64K", "-n", "20", "-N", "0", "-c", "0"]


def running(job, *words):
    """A job without end, and its ranks once it is under way."""
    process = job.start(*job.words("all_reduce", *ENDLESS, *words))
    while True:
        line = process.stdout.readline()
        if not line:
            check(False, f"it ended: {process.communicate()}")
        if re.match(r" *65536 ", line):
            break
    pids = [pid for pid in job.processes() if pid != process.pid]
    return process, pids


def ending(job, process):
    try:
        output, errors = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    job.nobody_is_left()
    return process.returncode, output, errors


def kill_rank(process, pids):
    os.kill(pids[-1], signal.SIGKILL)
    return 137


def kill_launcher(process, pids):
    process.kill()
    return -signal.SIGKILL


def interrupt(process, pids):
    os.killpg(process.pid, signal.SIGINT)
    return 128 + signal.SIGINT


def terminate(process, pids):
    process.terminate()
    return 128 + signal.SIGTERM


def end_of_job(job, words, end):
    process, pids = running(job, *words)
    wanted = end(process, pids)
    status, output, errors = ending(job, process)
    check(status == wanted, f"{end.__name__} with {words}: status {status}, not {wanted}\n{output[-500:]}{errors}")


def a_killed_rank_ends_the_job(job):
    end_of_job(job, ["-np", "3"], kill_rank)
    end_of_job(job, HOSTS, kill_rank)


def a_killed_launcher_ends_the_job(job):
    end_of_job(job, ["-np", "2"], kill_launcher)
    end_of_job(job, HOSTS, kill_launcher)


def an_interrupt_ends_the_job(job):
    end_of_job(job, ["-np", "2"], interrupt)
    end_of_job(job, HOSTS, interrupt)


def a_rank_that_hangs_is_waited_for_no_longer_than_said(job):
    for checks in ("0", "1"):  # with them the others wait in what compares
        rank_that_hangs(job, checks)


def rank_that_hangs(job, checks):
    process, pids = running(job, "-np", "3", "-T", "2", "-z", "1", "-c", checks)
    stopped = pids[0]
    os.kill(stopped, signal.SIGSTOP)
    status, output, errors = ending(job, process)
    check(status == 4 and "Test timeout (2s)" in errors, f"status {status}\n{output[-500:]}{errors}")


def every_end_of_every_job(job):
    for words in (["-np", "2"], ["-np", "5"], ["-np", "2", "-t", "2"], HOSTS, ["--hosts", "host0:2,host1:2"]):
        for end in (kill_rank, kill_launcher, interrupt, terminate):
            end_of_job(job, words, end)


def a_host_without_hca_among_others(job):
    """Which has no ib0: ranks meet by the network that all of them reach, whoever says where."""
    with tempfile.TemporaryDirectory(prefix="softib-test-") as folder:
        path = pathlib.Path(folder) / "fabric.yaml"
        path.write_text("hosts:\n  - {name: host0}\n  - {name: host1}\n  - {name: plain, hcas: 0}\n")
        with Places(job.fabric.softib, str(path)) as places:
            for hosts in ("host0,host1,plain", "plain,host0,host1"):
                argv = job.words("all_reduce", "--hosts", hosts, *SHORT)
                done = subprocess.run(argv, env=places.environment | {"PATH": job.environment["PATH"]}, cwd=folder,
                                      capture_output=True, text=True, timeout=120, check=False)
                check(done.returncode == 0, f"{hosts}: {done}")
                good(done.stdout, "all_reduce", 3, 3)
                check("on plain: no verbs device is there" in done.stderr, done.stderr)


CASES = [every_program_on_one_host, numbers_of_ranks, every_type_and_operator, threads_and_processes,
         threads_have_processors_of_their_own, one_rank_is_told_that_it_is_alone, ordinary_memory,
         groups_side_by_side, programs_between_hosts, by_another_agent, under_open_mpi, under_mpich, one_by_one,
         by_softib_run, a_host_without_hca_among_others, a_wrong_element_is_found_out, too_slow_is_a_failure,
         wrong_usage, a_host_that_is_not_there, a_fabric_with_another_name, a_reader_for_nccl_tests_reads_both,
         json_and_plot,
         what_cannot_be_written_is_told_first, variables_are_heeded_or_told_of,
         tuning_is_written_and_used, tuning_is_checked, one_pass_of_tuning_is_told, tuning_needs_ranks,
         a_bar_on_a_terminal_only, a_killed_rank_ends_the_job, a_killed_launcher_ends_the_job,
         an_interrupt_ends_the_job]
LONG_CASES = [everything_on_one_to_nine_ranks, every_program_between_hosts,
              a_rank_that_hangs_is_waited_for_no_longer_than_said, every_end_of_every_job]


def main():
    parser = new_parser(__doc__)
    parser.add_argument("--programs", type=pathlib.Path, help="where all_reduce_perf is (default: beside softib)")
    parser.add_argument("--full", action="store_true", help="everything on 1 to 9 ranks")
    suite = Suite(parser)
    cases = suite.chosen(CASES + LONG_CASES if suite.arguments.full else CASES)
    with Fabric(suite.arguments.softib) as fabric:
        job = Job(fabric, (suite.arguments.programs or pathlib.Path(fabric.softib).parent).resolve())
        for case in cases:
            begin = time.monotonic()
            report(case, job, suite.totals)
            if suite.arguments.full:
                print(f"      {time.monotonic() - begin:.1f} s", flush=True)
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
