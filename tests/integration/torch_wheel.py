#!/usr/bin/env python3
"""The wheel of the backend for torch.distributed: pip builds it, installs it, and ranks on two hosts of a fabric use
it.

    torch_wheel.py [--softib PATH] [--filter REGEX] [--full]

Prints PASS, FAIL or SKIP for each case, and a total line. The wheel is made with what the build folder of softib has
built; with --full in a fresh folder too, which compiles for minutes. What is said where something is missing needs no
PyTorch.
"""

import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

from hosts import Places
from softib_fabric import ROOT, free_port
from suite import Skip, Suite, check, new_parser

PYTHON = "/usr/bin/python3"
SOURCE = ROOT / "src/pytorch"
RANK = """
import torch, torch.distributed as dist
import softib_torch
dist.init_process_group("softib")
tensor = torch.full((1000,), float(dist.get_rank() + 1))
dist.all_reduce(tensor)
dist.destroy_process_group()
print("sum", tensor.unique().tolist(), "of", softib_torch.__file__)
"""


def python(*words, executable=PYTHON, **environment):
    """Status and output, in an environment that finds no package of the build tree."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SOFTIB_BUILD_DIR")}
    done = subprocess.run([executable, *map(str, words)], env=inherited | environment, capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout + done.stderr


def need_modules(*names):
    for name in names:
        if python("-c", f"import {name}")[0]:
            raise Skip(f"python3-{name} is not installed")


def pip_wheel(folder, **environment):
    need_modules("pip", "setuptools", "wheel")
    return python("-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", folder, SOURCE,
                  PIP_DISABLE_PIP_VERSION_CHECK="1", **environment)


def check_refused(words, **environment):
    """pip fails, with these words anywhere in a line."""
    with tempfile.TemporaryDirectory(prefix="softib-wheel-") as folder:
        status, output = pip_wheel(folder, **{"SOFTIB_BUILD_DIR": f"{folder}/build"} | environment)
        # CMake breaks lines where it likes.
        check(status and re.search(words, " ".join(output.split())), f"status {status}, no '{words}' in\n{output}")
        check(not list(pathlib.Path(folder).glob("*.whl")), "there is a wheel")


class Wheels:
    """What the command line says, and the wheel of the build folder once somebody asked for it."""

    def __init__(self, arguments, scratch):
        self.softib, self.full = arguments.softib, arguments.full
        self.build = pathlib.Path(arguments.softib).parents[1]
        self.scratch = scratch

    @functools.cached_property
    def wheel(self):
        if not (self.build / "python/softib_torch").exists():
            raise Skip("softib_torch is not built: python3-torch, libtorch-dev and pybind11-dev are missing")
        need_modules("torch")
        return one_wheel(self.scratch, self.build)


def one_wheel(folder, build):
    status, output = pip_wheel(folder, SOFTIB_BUILD_DIR=str(build))
    check(status == 0, output)
    return next(pathlib.Path(folder).glob("*.whl"))


def fake_torch(folder):
    """A PyTorch that can be found, and no more."""
    place = pathlib.Path(folder) / "packages"
    (place / "torch").mkdir(parents=True)
    (place / "torch/__init__.py").touch()
    (place / "torch-1.13.1.dist-info").mkdir()
    (place / "torch-1.13.1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.13.1\n")
    return str(place)


def with_fake_torch(case):
    @functools.wraps(case)
    def run(wheels):
        with tempfile.TemporaryDirectory(prefix="softib-torch-") as folder:
            case(wheels, pathlib.Path(folder).resolve(), fake_torch(folder))
    return run


def no_pytorch(_):
    """An interpreter that sees what builds wheels, and nothing else."""
    need_modules("pip", "setuptools", "wheel")
    with tempfile.TemporaryDirectory(prefix="softib-venv-") as folder:
        check(python("-m", "venv", "--without-pip", folder)[0] == 0, "python3 -m venv")
        place = pathlib.Path(folder) / "packages"
        place.mkdir()
        for name in ("pip", "setuptools", "wheel", "pkg_resources", "_distutils_hack"):
            found = python("-c", f"import {name}; print({name}.__path__[0])")[1].split()[-1]
            (place / name).symlink_to(found)
        status, output = python("-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", folder,
                                SOURCE, executable=f"{folder}/bin/python", PYTHONPATH=str(place),
                                SOFTIB_BUILD_DIR=f"{folder}/build")
        check(status and re.search(r"no PyTorch for .*: install it .*--no-build-isolation", output), output)


@with_fake_torch
def no_cmake(_, folder, torch):
    check_refused(r"cmake is not in PATH: install it", PYTHONPATH=torch, PATH=str(folder))


@with_fake_torch
def no_headers(_, folder, torch):
    check_refused(rf"no headers of torch in {folder}/packages/torch: install libtorch-dev", PYTHONPATH=torch)


@with_fake_torch
def a_build_folder_of_another_tree(_, folder, torch):
    (folder / "CMakeCache.txt").write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/usr/src/other\n")
    check_refused(f"{folder} belongs to /usr/src/other, not to {ROOT}", PYTHONPATH=torch, SOFTIB_BUILD_DIR=str(folder))


@with_fake_torch
def a_build_folder_of_another_pytorch(_, folder, torch):
    for theirs, said in (("", "no PyTorch"), ("/opt/torch", "the PyTorch in /opt/torch")):
        (folder / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n"
                                               f"SOFTIB_TORCH_FOLDER:INTERNAL={theirs}\n")
        check_refused(f"is configured for {said}, and .* run cmake -DSOFTIB_TORCH=ON", PYTHONPATH=torch,
                      SOFTIB_BUILD_DIR=str(folder))


@with_fake_torch
def no_source_distribution(_, folder, torch):
    need_modules("setuptools")
    status, output = python(SOURCE / "setup.py", "sdist", "-d", folder, PYTHONPATH=torch,
                            SOFTIB_BUILD_DIR=str(folder / "build"))
    check(status and "there is no source distribution" in output, output)


def what_is_in_the_wheel(wheels):
    version = re.search(r"project\(softib VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    tag = python("-c", "import sys; print('cp{}{}'.format(*sys.version_info))")[1].strip()
    name = f"softib_torch-{version}-{tag}-{tag}-linux_{os.uname().machine}.whl"
    check(wheels.wheel.name == name, f"{wheels.wheel.name}, not {name}")
    with zipfile.ZipFile(wheels.wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
        metadata = archive.read(f"softib_torch-{version}.dist-info/METADATA").decode()
        extension = next(name for name in files if name.endswith(".so"))
        path = archive.extract(extension, wheels.scratch)
    suffix = python("-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))")[1].strip()
    check(files == {"softib_torch/__init__.py", f"softib_torch/_softib{suffix}"}, f"{files}")
    check(re.search(r"^Requires-Dist: torch ?\(?==\d+\.\d+\.\*\)?$", metadata, re.M), metadata)
    dynamic = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    check("libsoftib" not in dynamic and str(wheels.build) not in dynamic, dynamic)


def ranks_use_what_pip_installed(wheels):
    check_ranks(wheels, wheels.wheel)


def ranks_use_what_was_built_afresh(wheels):
    if not wheels.full:
        raise Skip("only with --full")
    need_modules("torch")
    with tempfile.TemporaryDirectory(prefix="softib-wheel-") as folder:
        check_ranks(wheels, one_wheel(folder, pathlib.Path(folder) / "build"))


def check_ranks(wheels, wheel):
    with tempfile.TemporaryDirectory(prefix="softib-venv-") as folder, Places(wheels.softib) as places:
        status, output = python("-m", "venv", "--system-site-packages", "--without-pip", folder)
        check(status == 0, output)
        interpreter = f"{folder}/bin/python"
        # Not --no-deps: the PyTorch of the system is what the wheel asks for.
        status, output = python("-m", "pip", "install", "--no-index", wheel, executable=interpreter)
        check(status == 0, output)
        environment = {"WORLD_SIZE": "2", "MASTER_ADDR": "host0", "MASTER_PORT": str(free_port())}
        ranks = [places.start(f"host{rank}", [interpreter, "-W", "ignore", "-c", RANK], RANK=str(rank), **environment)
                 for rank in range(2)]
        try:
            for rank in ranks:
                status, output = rank.wait(120), rank.output()
                check(status == 0 and f"sum [3.0] of {folder}/lib/" in output, f"status {status}\n{output[-3000:]}")
        finally:
            for rank in ranks:
                rank.stop()


CASES = (no_pytorch, no_cmake, no_headers, a_build_folder_of_another_tree, a_build_folder_of_another_pytorch,
         no_source_distribution, what_is_in_the_wheel, ranks_use_what_pip_installed, ranks_use_what_was_built_afresh)


def main():
    parser = new_parser(__doc__)
    parser.add_argument("--full", action="store_true")
    suite = Suite(parser)
    os.environ.pop("PYTHONPATH", None)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="softib-wheel-") as scratch:
        suite.run_each(suite.chosen(CASES), Wheels(suite.arguments, scratch))
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
