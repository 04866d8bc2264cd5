#!/usr/bin/env python3
"""The backend for torch.distributed, compiled with the headers of PyTorches that aren't installed.

    torch_headers.py [--filter REGEX] [FOLDER...]

Each FOLDER is that of an unpacked libtorch (or of an installed `torch`), and has `include` in it; without any, those
that SOFTIB_TORCH_HEADERS names, separated by colons. Of these only the headers are used: a stand-in takes PyTorch's
place, whose libraries are empty, and CMake builds the extension for that. It must compile without warnings, with these
headers and no other PyTorch's, and need nothing of a library that PyTorch doesn't have. Nothing runs.

Prints PASS, FAIL or SKIP for each folder, and a total line.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from softib_fabric import ROOT
from suite import Skip, Suite, check, new_parser

PYTHON = "/usr/bin/python3"
LIBRARIES = ("torch", "torch_cpu", "torch_python", "c10")
# What the compiler of pip's wheels was, which no compiler of today takes itself for.
PYBIND = {"COMPILER_TYPE": "_gcc", "STDLIB": "_libstdcpp", "BUILD_ABI": "_cxxabi1011"}
# Whose names may be left for PyTorch and the interpreter to have. Names of theirs are in others' templates, too.
THEIRS = re.compile(r"\b(c10d?|caffe2|at|torch|pybind11)::|^_?Py|\bTHP")
OURS = re.compile(r"^(typeinfo (name )?for |vtable for |guard variable for )?(softib|fmt)::")


def output_of(*words, what, **environment):
    done = subprocess.run([str(word) for word in words], env=os.environ | environment, capture_output=True, text=True,
                          check=False)
    lines = (done.stdout + done.stderr).splitlines()
    told = [line for line in lines if re.search(r"error", line, re.I)][:10] or lines[-20:]
    check(done.returncode == 0, f"{what}: status {done.returncode}\n" + "\n".join(told))
    return done.stdout


class Headers:
    """A folder of headers, and what it says of itself."""

    def __init__(self, folder):
        folder = pathlib.Path(folder).resolve()
        self.folder = folder / "include" if (folder / "include/torch").is_dir() else folder
        self.__name__ = f"PyTorch in {folder}"

    def text_of(self, *names):
        paths = [self.folder / name for name in names]
        return "\n".join(path.read_text(errors="replace") for path in paths if path.exists())

    def number(self, name, text):
        found = re.search(rf"^#\s*define {name} (\d+)", text, re.M)
        check(found, f"{self.folder} has no {name}: name the folder of an unpacked libtorch, or its `include`")
        return int(found[1])

    @property
    def version(self):
        text = self.text_of("torch/csrc/api/include/torch/version.h", "torch/headeronly/version.h")
        return tuple(self.number(f"TORCH_VERSION_{part}", text) for part in ("MAJOR", "MINOR", "PATCH"))

    @property
    def pybind_version(self):
        return self.number("PYBIND11_VERSION_MAJOR", self.text_of("pybind11/detail/common.h"))

    @property
    def has_old_strings(self):
        """As pip's wheels of this version have them."""
        return self.version < (2, 6)


def stand_in(headers, folder):
    """A module torch that CMake can ask, with these headers and with libraries to link with."""
    package = folder / "packages/torch"
    (package / "lib").mkdir(parents=True)
    (package / "include").symlink_to(headers.folder)
    lines = [f"__version__ = '{'.'.join(map(str, headers.version))}'", "class _C:", "    pass"]
    if headers.version < (2, 13):
        lines.append(f"_C._GLIBCXX_USE_CXX11_ABI = {not headers.has_old_strings}")
    if headers.pybind_version < 3:
        lines += [f"_C._PYBIND11_{name} = '{value}'" for name, value in PYBIND.items()]
    (package / "__init__.py").write_text("\n".join(lines) + "\n")
    for name in LIBRARIES:
        output_of("c++", "-shared", "-fPIC", "-x", "c++", "/dev/null", "-o", package / f"lib/lib{name}.so",
                  what=f"an empty lib{name}.so")
    return package


def build(package, folder):
    for name in ("cmake", "ninja", "c++", "nm", "ldd"):
        if not shutil.which(name):
            raise Skip(f"{name} is not installed")
    environment = {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    output_of("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_UNITY_BUILD=ON",
              "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DSOFTIB_LAYERS=coll;pytorch", "-DSOFTIB_TORCH=ON",
              f"-DSOFTIB_TORCH_PYTHON={PYTHON}", what="cmake", **environment)
    output_of("ninja", "-C", folder, "-j2", "softib_torch", what="the build", **environment)
    return next((folder / "python/softib_torch").glob("_softib*.so"))


def check_headers_used(headers, folder):
    """A header that is missing there, and of an installed PyTorch, is an error that others would see elsewhere."""
    used = output_of("ninja", "-C", folder, "-t", "deps", what="ninja -t deps").split("\n")
    used = {str(pathlib.Path(folder, line.strip()).resolve()) for line in used if line.startswith("    ")}
    names = r"/(torch|ATen|c10|caffe2|pybind11)/.*\.(h|hpp)$"
    mixed = sorted(name for name in used
                   if re.search(names, name) and not name.startswith((str(headers.folder), str(ROOT / "src"))))
    check(any(name.startswith(str(headers.folder)) for name in used), f"nothing of {headers.folder} was used")
    check(not mixed, f"headers of another PyTorch were used: {mixed[:5]}")


def names_in(library, kind):
    lines = output_of("nm", "-D", kind, library, what=f"nm {library}").split("\n")
    return {line.split()[-1].split("@")[0] for line in lines if line}


def check_what_is_needed(headers, extension):
    """Names that no library has must be PyTorch's, and not be ours or of a library that PyTorch brings as headers."""
    left = names_in(extension, "--undefined-only")
    for path in re.findall(r"(/\S+) \(0x", output_of("ldd", extension, what="ldd")):
        if "/packages/torch/" not in path:
            left -= names_in(path, "--defined-only")
    plain = output_of("c++filt", *sorted(left), what="c++filt").split("\n") if left else []
    wrong = [name for name in plain if name and (OURS.search(name) or not THEIRS.search(name))]
    wrong = [name for name in wrong if not name.startswith(("_ITM_", "__gmon_start__"))]
    check(not wrong, f"names that PyTorch doesn't have: {wrong[:10]}")
    check(any("c10d::" in name for name in plain), "nothing of PyTorch's is used")
    if headers.has_old_strings:
        new = [name for name in plain if "[abi:cxx11]" in name or "__cxx11::" in name]
        check(not new, f"names with new strings: {new[:10]}")


def compiled_with(headers, scratch):
    """In a build folder for all headers of one kind: what knows nothing of PyTorch is compiled once."""
    version = ".".join(map(str, headers.version))
    package = stand_in(headers, pathlib.Path(tempfile.mkdtemp(dir=scratch)))
    folder = scratch / ("old-strings" if headers.has_old_strings else "new-strings")
    extension = build(package, folder)
    check_headers_used(headers, folder)
    check_what_is_needed(headers, extension)
    tag = "".join(PYBIND.values()).encode() + b"__"
    check(headers.pybind_version >= 3 or tag in extension.read_bytes(),
          "pybind11 would not find PyTorch's types: its ABI isn't the one that PyTorch names")
    print(f"  PyTorch {version}: std::string's {'old' if headers.has_old_strings else 'new'} ABI, pybind11 "
          f"{headers.pybind_version}")


def case_of(folder):
    headers = Headers(folder)

    def case(scratch):
        compiled_with(headers, scratch)
    case.__name__ = headers.__name__
    return case


def any_headers(_):
    raise Skip("SOFTIB_TORCH_HEADERS names no folder of an unpacked libtorch")


def main():
    parser = new_parser(__doc__)
    parser.add_argument("folders", nargs="*", metavar="FOLDER",
                        default=[name for name in os.environ.get("SOFTIB_TORCH_HEADERS", "").split(":") if name])
    suite = Suite(parser)
    cases = [case_of(folder) for folder in suite.arguments.folders] or [any_headers]
    with tempfile.TemporaryDirectory(prefix="softib-torch-") as scratch:
        suite.run_each(suite.chosen(cases), pathlib.Path(scratch).resolve())
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
