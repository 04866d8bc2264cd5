"""The wheel of softib_torch. CMake builds the extension, for the PyTorch of the interpreter that runs this:

    pip wheel --no-build-isolation --no-deps src/pytorch

SOFTIB_BUILD_DIR names a build folder, relative to the source tree: one that is there is used as it is configured, else
it is made. Without it that is build/wheel.
"""

import importlib.metadata
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

ROOT = pathlib.Path(__file__).resolve().parents[2]
GIVEN = os.environ.get("SOFTIB_BUILD_DIR")
BUILD = (ROOT / (GIVEN or "build/wheel")).resolve()
PACKAGES = ("g++ cmake pkg-config libexpected-dev libfmt-dev libhwy-dev libibverbs-dev libibumad-dev libtorch-dev "
            "pybind11-dev python3-dev")


def give_up(why):
    sys.exit(f"softib_torch: {why}")


def project_version():
    try:
        return re.search(r"^project\(softib VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
    except (OSError, TypeError):
        give_up(f"{ROOT} is not SoftIB's source tree: build from the folder src/pytorch in it, not from a copy")


def torch_folder():
    found = importlib.util.find_spec("torch")
    if not found or not found.origin:
        give_up(f"no PyTorch for {sys.executable}: install it (Debian: python3-torch libtorch-dev), and tell pip "
                "--no-build-isolation, or it hides what is installed")
    return pathlib.Path(found.origin).resolve().parent


def torch_wanted():
    """PyTorch's C++ interface is another in each minor version."""
    torch_folder()
    return "torch==" + ".".join(importlib.metadata.version("torch").split(".")[:2]) + ".*"


def run(*words):
    if subprocess.run([str(word) for word in words], check=False).returncode:
        give_up(f"`{' '.join(map(str, words))}` failed, for the reason above; Debian's packages that are needed: "
                f"{PACKAGES}")


def cache_of(folder):
    """The variables of a build folder; none if it isn't configured."""
    try:
        return dict(re.findall(r"^(\w+):\w+=(.*)$", (folder / "CMakeCache.txt").read_text(), re.M))
    except FileNotFoundError:
        return {}


def check_given(cache):
    home = pathlib.Path(cache["CMAKE_HOME_DIRECTORY"])
    if home.resolve() != ROOT:
        give_up(f"{BUILD} belongs to {home}, not to {ROOT}: name another folder in SOFTIB_BUILD_DIR, or none")
    theirs = cache.get("SOFTIB_TORCH_FOLDER")
    if not theirs or pathlib.Path(theirs).resolve() != torch_folder():
        give_up(f"{BUILD} is configured for {'the PyTorch in ' + theirs if theirs else 'no PyTorch'}, and "
                f"{sys.executable} has that in {torch_folder()}: name another folder in SOFTIB_BUILD_DIR, or none, or "
                f"run cmake -DSOFTIB_TORCH=ON -DSOFTIB_TORCH_PYTHON={sys.executable} {BUILD}")


def configure(folder):
    generator = ["-G", "Ninja"] if shutil.which("ninja") and not cache_of(folder) else []
    run("cmake", "-S", ROOT, "-B", folder, *generator, "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG", "-DCMAKE_UNITY_BUILD=ON", "-DSOFTIB_WERROR=OFF",
        "-DSOFTIB_LAYERS=coll;pytorch", "-DSOFTIB_TORCH=ON", f"-DSOFTIB_TORCH_PYTHON={sys.executable}")


class CMakeBuild(build_ext):
    def build_extension(self, extension):
        if not shutil.which("cmake"):
            give_up("cmake is not in PATH: install it (3.22 or later)")
        target = pathlib.Path(self.get_ext_fullpath(extension.name))
        stage = pathlib.Path(self.build_temp).resolve() / "stage"
        # One folder for each interpreter, unless somebody chose one.
        folder = BUILD if GIVEN else pathlib.Path(self.build_temp).resolve() / "cmake"
        if GIVEN and cache_of(folder):
            check_given(cache_of(folder))
        else:
            configure(folder)
        jobs = [] if "CMAKE_BUILD_PARALLEL_LEVEL" in os.environ else ["--parallel", len(os.sched_getaffinity(0))]
        run("cmake", "--build", folder, "--target", "softib_torch", *jobs)
        # Installed, not copied: without the build tree's RUNPATH.
        shutil.rmtree(stage, ignore_errors=True)
        run("cmake", "--install", folder, "--component", "python", "--strip", "--prefix", stage)
        built = list(stage.rglob(target.name))
        if len(built) != 1:
            give_up(f"{folder} gave no {target.name}: is its SOFTIB_PYTHON_DIR absolute, or its Python another?")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(built[0], target)


class NoSourceDistribution(sdist):
    def run(self):
        give_up("there is no source distribution, as most of the source is outside of src/pytorch: make a wheel "
                "(pip wheel, or python3 -m build --wheel)")


# What the build leaves is below build/, and nothing beside the sources.
scratch = BUILD / "setuptools" if GIVEN else BUILD
scratch.mkdir(parents=True, exist_ok=True)
setup(
    name="softib_torch",
    version=project_version(),
    description="A backend for torch.distributed over shared memory, verbs and TCP",
    license="Apache-2.0",
    python_requires=">=3.8",
    install_requires=[torch_wanted()],
    packages=["softib_torch"],
    ext_modules=[Extension("softib_torch._softib", [])],
    cmdclass={"build_ext": CMakeBuild, "sdist": NoSourceDistribution},
    options={"build": {"build_base": str(scratch)}, "egg_info": {"egg_base": str(scratch)}},
    zip_safe=False,
)
