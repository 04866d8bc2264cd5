#!/usr/bin/env python3
"""SoftIB as installed: `cmake --install` to a folder, which is moved elsewhere and then used without the build tree.

    install.py [--softib PATH] [--filter REGEX]
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from hosts import same
from softib_fabric import Fabric
from suite import Mismatch, Skip, Suite, check, new_parser, run, wait_for


def installed(build, folder):
    """A prefix that is not where it was installed to."""
    first, moved = folder / "first", folder / "moved"
    done = subprocess.run(["cmake", "--install", build, "--prefix", first], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Mismatch(f"cmake --install: {done.stdout}{done.stderr}")
    first.rename(moved)
    return moved


def prefix_of(fabric):
    return pathlib.Path(fabric.softib).parents[1]


def programs_are_those_of_the_prefix(fabric):
    prefix = prefix_of(fabric)
    daemon = os.readlink(f"/proc/{fabric.daemon_pid()}/exe")
    check(daemon.startswith(f"{prefix}/"), f"softibd is {daemon}")
    where = fabric.status()["namespaces"]
    if where["kind"] == "namespaces":
        keeper = os.readlink(f"/proc/{where['keeper_pid']}/exe")
        check(keeper.startswith(f"{prefix}/"), f"the keeper is {keeper}")
        wait_for(lambda: "softib-ipoib" in [program["program"] for program in fabric.status()["processes"]],
                 "IP over InfiniBand does not run")
    maps = fabric.run("host0", ["cat", "/proc/self/maps"])[1]
    libraries = {line.split()[-1] for line in maps.splitlines() if "libsoftib-preload" in line}
    check(libraries and all(path.startswith(f"{prefix}/") for path in libraries), f"preloaded: {libraries}")


def hosts_talk(fabric):
    words = ["ibv_rc_pingpong", "-e", "-n", "50"]
    server = fabric.start("host0", words)
    try:
        # The same from both hosts, wherever they are.
        wait_for(lambda: "0A" in [line.split()[3] for line in
                                  fabric.run("host0", ["cat", "/proc/net/tcp", "/proc/net/tcp6"])[1].splitlines()],
                 "ibv_rc_pingpong does not listen")
        check("50 iters" in run(fabric, "host1", *words, "host0"), "the client's line")
        same(server.wait(20), 0, server.output())
    finally:
        server.stop()


def tools_and_launchers_are_found(fabric):
    same(run(fabric, "host0", "sh", "-c", '"$OMPI_MCA_plm_rsh_agent" host1 hostname').strip(), "host1", "softib-ssh")
    path = run(fabric, "host0", "printenv", "PATH").strip().split(":")
    check(any((pathlib.Path(folder) / "ibdev2netdev").exists() for folder in path
              if folder.startswith(f"{prefix_of(fabric)}/")), f"the tools are not in {path}")


def the_manual_page(fabric):
    page = prefix_of(fabric) / "share/man/man1/softib.1"
    if not page.exists():
        raise Skip("made where lowdown is installed")
    if not shutil.which("man"):
        raise Skip("man is not installed")
    path = f"{pathlib.Path(fabric.softib).parent}:{os.environ['PATH']}"
    done = subprocess.run(["man", "softib"], env={**os.environ, "PATH": path, "MANWIDTH": "100", "LC_ALL": "C"},
                          capture_output=True, text=True, check=False)
    for section in ("NAME", "SYNOPSIS", "COMMANDS", "EXIT STATUS", "SEE ALSO"):
        check(f"\n{section}\n" in done.stdout, f"man softib has no {section}: {done.stdout[:400]}{done.stderr}")


def c_programs_find_the_collectives(fabric):
    prefix = prefix_of(fabric)
    configuration = next(prefix.rglob("softib_coll.pc"))
    environment = {**os.environ, "PKG_CONFIG_PATH": str(configuration.parent), "SOFTIB_SOCKET_IFNAME": "lo",
                   "SOFTIB_IB_DISABLE": "1", "LD_LIBRARY_PATH": str(configuration.parents[1])}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "softib_coll"], env=environment, capture_output=True,
                           text=True, check=True).stdout.split()
    source = pathlib.Path(__file__).parents[2] / "examples/coll_allreduce.c"
    program = prefix / "coll_allreduce"
    built = subprocess.run(["cc", "-Wall", "-Werror", source, "-o", program, *flags], capture_output=True, text=True,
                           check=False)
    same(built.returncode, 0, built.stderr)
    done = subprocess.run([program, "3"], env=environment, capture_output=True, text=True, check=False)
    same(done.returncode, 0, done.stdout + done.stderr)
    check("rank 2 of 3: sum 3, my left neighbour says 101" in done.stdout, done.stdout)


PROJECT = """cmake_minimum_required(VERSION 3.22)
project(theirs CXX)
set(SOFTIB_LAYERS coll)
add_subdirectory({source} softib)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE softib_coll)
"""
PROGRAM = """#include "coll/communicator.h"
int main() {
  const softib::coll::UniqueId id = *softib::coll::UniqueId::make();
  return softib::coll::Communicator::create(id, 1, 0) ? 0 : 1;
}
"""


def a_project_has_the_collectives_as_a_part(fabric):
    """Which docs/collectives.md says how to do. Its program is compiled; the library would take minutes."""
    source, folder = pathlib.Path(__file__).parents[2], prefix_of(fabric) / "project"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(PROJECT.format(source=source))
    (folder / "program.cpp").write_text(PROGRAM)
    lines = (source / "docs/collectives.md").read_text().splitlines()
    check(PROJECT.splitlines()[2] in lines and PROJECT.splitlines()[5] in lines, "the document has other lines")
    for words in (["cmake", "-S", folder, "-B", folder / "build"],
                  ["make", "-C", folder / "build", "-f", "CMakeFiles/program.dir/build.make", "VERBOSE=1",
                   "CMakeFiles/program.dir/program.cpp.o"]):
        done = subprocess.run(words, env={**os.environ, "CMAKE_GENERATOR": "Unix Makefiles"}, capture_output=True,
                              text=True, check=False)
        same(done.returncode, 0, f"{done.stdout[-2000:]}{done.stderr[-4000:]}")
    check("-Werror" not in (folder / "build/softib/src/coll/CMakeFiles/softib_coll.dir/flags.make").read_text(),
          "their compiler's warnings are errors")


def benchmarks_of_collectives(fabric):
    """They find the softib that they were installed with."""
    program = pathlib.Path(fabric.softib).with_name("all_reduce_perf")
    if not program.exists():
        raise Skip("not built")
    words = [program, "--hosts", "host0,host1", "-b", "8", "-e", "64K", "-f", "8"]
    done = subprocess.run(words, env=fabric.environment, cwd=fabric.folder, capture_output=True, text=True, timeout=60,
                          check=False)
    check(done.returncode == 0 and "# Out of bounds values : 0 OK\n" in done.stdout, f"{done}")


CASES = (programs_are_those_of_the_prefix, hosts_talk, tools_and_launchers_are_found, the_manual_page,
         c_programs_find_the_collectives, a_project_has_the_collectives_as_a_part,
         benchmarks_of_collectives)


def main():
    suite = Suite(new_parser(__doc__))
    build = pathlib.Path(suite.arguments.softib).parents[1]
    with tempfile.TemporaryDirectory(prefix="softib-install-") as folder:
        fabric = Fabric(str(installed(build, pathlib.Path(folder)) / "bin/softib"))
        fabric.environment.pop("SOFTIB_NAMESPACES")
        with fabric:
            suite.run_each(suite.chosen(CASES), fabric)
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
