#!/usr/bin/env python3
"""Style as a test: include direction, dead files, function length, forbidden words, line form, self-contained headers.

    check_style.py rules   [--root DIR]
    check_style.py headers [--root DIR] [--compiler CXX] [--jobs N] [--all]

A header with a source file of its own comes first there, which is a rule. So any build but a unity build proves it to
be self-contained, and `headers` tries the others alone; with --all it tries all, which takes minutes.
Prints one line per finding, `file:line: what`, and exits with 1 if there is any.
"""

import argparse
import ast
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

MAX_LINE = 120
MAX_FUNCTION = 70

# What each layer may include, besides itself. Siblings (hca and fabric; daemon, shim and cli) don't see each other.
FOUNDATION = {"base", "abi", "wire", "ipc"}
LAYERS = {
    "base": set(),
    "abi": {"base"},
    "options": {"base"},
    "wire": {"base"},
    "rtnl": {"base"},
    "ipc": {"base", "abi", "wire"},
    "hca": FOUNDATION,
    "fabric": FOUNDATION,
    "cm": {"base", "wire"},
    "net": FOUNDATION | {"fabric"},
    "sm": {"base", "wire", "fabric"},
    "kernel": FOUNDATION | {"hca", "fabric"},
    "roce": FOUNDATION | {"hca", "fabric"},
    "daemon": FOUNDATION | {"options", "hca", "fabric", "cm", "net", "kernel", "roce", "sm"},
    "shim": FOUNDATION | {"hca", "fabric", "kernel", "roce"},
    "hosts": FOUNDATION | {"options", "fabric", "rtnl"},
    "cli": FOUNDATION | {"fabric"},
    "ipoib": {"base", "options", "wire", "rtnl"},
    "coll": {"base", "wire"},
    "aggregation": {"base", "options", "wire", "coll"},
    "perf": {"base", "coll"},
    "pytorch": {"base", "coll"},
    "plan": {"base", "coll"},
}

# What runs inside other people's programs stays free of libraries that bring threads, files or globals.
PRELOADED = {"base", "abi", "wire", "ipc", "hca", "kernel", "shim"}
HEAVY_LIBRARIES = re.compile(r"^(spdlog|CLI|yaml-cpp|nlohmann|iostream$)")

# Each is (pattern, what is wrong with it). Pieces are joined so that this file doesn't contain what it forbids.
FORBIDDEN = [
    (re.compile(r"\b(FIX" r"ME|XX" r"X|HA" r"CK)\b"), "unfinished work is an issue, not a comment"),
    (re.compile(r"\bTO" r"DO\b"), "unfinished work is an issue, not a comment"),
    (re.compile(r"#\s*define\s+private\s+pub" r"lic"), "tests use the public interface"),
    (re.compile(r"(?<![\w.}*)/-])/(home|root|work|mnt|media|Users)/\w"), "path of one machine"),
    (re.compile(r"^(<<<<<<<|>>>>>>>) "), "merge conflict"),
    (re.compile(r"(?i)\b(cla" r"ude|anthro" r"pic|chat" r"gpt|co" r"pilot|as an a" r"i)\b"), "names a tool"),
    (re.compile(r"(?i)co-authored" r"-by"), "belongs in a commit message"),
    (re.compile(r"(?i)\bthe (lead|brief|helper session)\b(?= (said|says|told|wants|will))"), "tells of the making"),
]

FIXED_NAME = re.compile(r"/tmp/(?!softib\b)[A-Za-z]")

CODE = {".h", ".cpp", ".c", ".cc", ".hpp", ".py", ".sh", ".cmake"}
TEXT = CODE | {".txt", ".md", ".json", ".yaml", ".yml", ".clang-format", ".clang-tidy", ""}
BUILT = {".cpp", ".c", ".cc"}


def list_files(root):
    """Files that are, or would be, committed; every file outside build folders where there is no git."""
    try:
        out = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"],
                             check=True, capture_output=True).stdout
        names = [n for n in out.decode().split("\0") if n]
    except (OSError, subprocess.CalledProcessError):
        names = []
        for folder, folders, files in os.walk(root):
            folders[:] = [f for f in folders if f not in {"build", "__pycache__", ".git", ".cache"}]
            names += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return sorted(n for n in set(names) if (root / n).is_file() and not (root / n).is_symlink())


class Checker:
    def __init__(self, root):
        self.root = root
        self.files = list_files(root)
        self.findings = []
        self.texts = {}
        for name in self.files:
            data = (root / name).read_bytes()
            if pathlib.Path(name).suffix in TEXT and b"\0" not in data:
                self.texts[name] = data.decode("utf-8", "replace")

    def report(self, name, line, what):
        self.findings.append(f"{name}:{line}: {what}")

    def sources(self, suffixes, folders=("src", "tests", "bench", "fuzz", "examples")):
        for name, text in self.texts.items():
            if pathlib.Path(name).suffix in suffixes and name.split("/")[0] in folders:
                yield name, text

    # -- lines -------------------------------------------------------------------------------------------------------

    def check_lines(self):
        for name, text in self.texts.items():
            suffix = pathlib.Path(name).suffix
            if name == "LICENSE" or "/corpus/" in name:
                continue
            if text and not text.endswith("\n"):
                self.report(name, text.count("\n") + 1, "no newline at the end of the file")
            for number, line in enumerate(text.split("\n"), 1):
                self.check_line(name, suffix, number, line)

    def check_line(self, name, suffix, number, line):
        if "\t" in line:
            self.report(name, number, "tab")
        if line.endswith((" ", "\r")) and suffix != ".md":
            self.report(name, number, "blank at the end of the line")
        if suffix in CODE and len(line) > MAX_LINE:
            self.report(name, number, f"{len(line)} columns, at most {MAX_LINE}")
        if name.startswith(("src/", "scripts/")) and FIXED_NAME.search(line):
            self.report(name, number, "fixed name under /tmp; use mktemp")
        for pattern, why in FORBIDDEN:
            found = pattern.search(line)
            if found:
                self.report(name, number, f"'{found.group(0)}': {why}")

    # -- includes ----------------------------------------------------------------------------------------------------

    def check_includes(self):
        include = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
        for name, text in self.sources({".h", ".cpp", ".c"}):
            if name.endswith(".h") and not re.search(r"^#pragma once$", text, re.M):
                self.report(name, 1, "no #pragma once")
            self.check_first_include(name, include.search(text))
            for match in include.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                self.check_include(name, line, match.group(1), match.group(2))

    def check_first_include(self, name, first):
        own = pathlib.PurePath(name).with_suffix(".h")
        if name.endswith(".cpp") and str(own) in self.files and (not first or not str(own).endswith(first.group(2))):
            self.report(name, 1, f'"{own.name}" is not the first that it includes')

    def check_include(self, name, line, quote, target):
        parts = name.split("/")
        layer = parts[1] if parts[0] == "src" else None
        if layer in PRELOADED and HEAVY_LIBRARIES.search(target):
            self.report(name, line, f"<{target}> has no place in what is loaded into other programs")
        if quote != '"':
            if target.split("/")[0] in LAYERS and target.endswith(".h") and f"src/{target}" in self.files:
                self.report(name, line, f'<{target}>: own headers are included with ""')
            return
        if layer is None:
            return
        if "/" not in target:
            self.report(name, line, f'"{target}": write the layer too')
            return
        other = target.split("/")[0]
        if other != layer and other not in LAYERS.get(layer, set()):
            self.report(name, line, f"{layer} may not include {other}")
        if f"src/{target}" not in self.files:
            self.report(name, line, f'"{target}" does not exist')

    # -- dead files --------------------------------------------------------------------------------------------------

    def check_dead_files(self):
        lists = {n: t for n, t in self.texts.items() if n.endswith(("CMakeLists.txt", ".cmake"))}
        for name, _ in self.sources(BUILT):
            if not self.is_built(name, lists):
                self.report(name, 1, "in no CMakeLists.txt")
        included = "\n".join(t for _, t in self.sources({".h", ".cpp", ".c"}))
        for name, _ in self.sources({".h"}):
            target = name[4:] if name.startswith("src/") else pathlib.PurePath(name).name
            if not re.search(r'#\s*include\s*[<"]([\w./-]*/)?' + re.escape(target) + '[>"]', included):
                self.report(name, 1, "included by nothing")
        self.check_dead_scripts()

    @staticmethod
    def is_built(name, lists):
        path = pathlib.PurePath(name)
        for folder in path.parents:
            text = lists.get(str(folder / "CMakeLists.txt"))
            if text is None:
                continue
            relative = str(path.relative_to(folder))
            if re.search(r"(?<![\w/-])" + re.escape(relative) + r"(?![\w.])", text):
                return True
            if folder == path.parent and named_by_foreach(path.name, text):
                return True
            if folder == path.parent and re.search(r"GLOB\b[^)]*\*\.cpp", text):
                return True
        return False

    def check_dead_scripts(self):
        for name in self.files:
            path = pathlib.PurePath(name)
            if path.suffix not in {".py", ".sh"} or len(path.parts) == 1:
                continue
            stem = path.stem if path.suffix == ".py" else path.name
            if not any(stem in text for other, text in self.texts.items() if other != name):
                self.report(name, 1, "named by no other file")

    # -- function length ---------------------------------------------------------------------------------------------

    def check_functions(self):
        for name, text in self.sources({".h", ".cpp", ".c"}):
            for first, last in cpp_functions(text):
                body = text.split("\n")[first - 1:last]
                if len(body) > MAX_FUNCTION and not is_table(body):
                    self.report(name, first, f"function of {len(body)} lines, at most {MAX_FUNCTION}")
        for name, text in self.texts.items():
            if name.endswith(".py"):
                self.check_python(name, text)

    def check_python(self, name, text):
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            self.report(name, error.lineno or 1, f"not Python: {error.msg}")
            return
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = node.end_lineno - node.lineno + 1
                if lines > MAX_FUNCTION:
                    self.report(name, node.lineno, f"function of {lines} lines, at most {MAX_FUNCTION}")


def named_by_foreach(name, text):
    """Whether a list file has ${variable}_test.cpp, say, and the rest of the name as a word."""
    for suffix in set(re.findall(r"\$\{\w+\}([\w.-]+)", text)):
        word = name[:-len(suffix)]
        if name.endswith(suffix) and word and re.search(r"(?<![\w-])" + re.escape(word) + r"(?![\w.-])", text):
            return True
    return False


# -- a small C++ scanner --------------------------------------------------------------------------------------------

NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'"""
    r"""|^[ ]*\#(?:\\\n|[^\n])*""",
    re.S | re.M | re.X)
DIGIT_SEPARATOR = re.compile(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])")
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum)\b(?![^{]*\)\s*(const|noexcept|override|final|->|$))")
HEADED = re.compile(r"\s*(template\b.*)?(class|struct|union|enum|namespace)\b", re.S)
VALUE = re.compile(r"=\s*(\w[\w:<>, ]*)?(\([^)]*\))?$")
OPERATOR = re.compile(r"operator\s*\W+\s*\([^)]*\)")
CONSTRUCTOR = re.compile(r"\)\s*(noexcept(\([^)]*\))?\s*)?:(?!:)")


def blank(match):
    """Replaces what is no code by blanks, keeping the lines."""
    return re.sub(r"[^\n]", " ", match.group(0))


def opens(statement):
    """What a brace opens after `statement`: 'scope', 'function' or 'data'."""
    statement = statement.rstrip()
    if not statement or re.search(r"\bextern$", statement):
        return "scope"
    if "(" not in statement:
        return "scope" if SCOPE.search(statement) else "data"
    if CONSTRUCTOR.search(statement):
        return "function" if statement[-1] in ")}" else "data"
    if SCOPE.search(statement) and HEADED.match(statement):
        return "scope"
    return "data" if VALUE.search(statement) and not OPERATOR.search(statement) else "function"


def cpp_functions(text):
    """Gives (first line, last line) of each function at namespace or class scope."""
    code = NOT_CODE.sub(blank, DIGIT_SEPARATOR.sub("_", text))
    stack, statement_start, function_start = [], 0, 0
    for match in re.finditer(r"[{};]", code):
        token, position = match.group(0), match.start()
        outside = "function" not in stack and "data" not in stack
        if token == "{":
            kind = opens(code[statement_start:position]) if outside else "inner"
            if kind == "function":
                function_start = statement_start
            stack.append(kind)
        elif token == "}" and stack:
            kind = stack.pop()
            if kind == "function":
                lead = len(code[function_start:]) - len(code[function_start:].lstrip())
                yield code.count("\n", 0, function_start + lead) + 1, code.count("\n", 0, position) + 1
            if kind == "data":
                continue  # the statement goes on: another member's initialiser, or a semicolon
        if "function" not in stack and "data" not in stack:
            statement_start = position + 1


TABLE_ROW = re.compile(
    r"^\s*(case\b.*|default:.*|return\b[^{]*;|\{.*\},?|[\w:]+\{.*\},?|\"[^\"]*\",?.*|//.*|\}[;,)]*|)\s*$")


def is_table(body):
    rows = sum(1 for line in body if TABLE_ROW.match(line))
    return rows >= 0.85 * len(body)


# -- self-contained headers -----------------------------------------------------------------------------------------

# Where Debian's libtorch-dev has torch/version.h. Without PyTorch, headers that include it can't be tried.
PYTORCH = "/usr/include/torch/csrc/api/include"
WANTS_PYTORCH = re.compile(r"fatal error: (torch|ATen)/\S+: No such file")


def compile_header(root, compiler, name):
    command = compiler.split() + ["-std=gnu++20", "-fsyntax-only", "-Wall", "-Wextra", "-x", "c++", "-I", "src"]
    if not name.startswith("src/"):
        command += ["-I", "tests", "-I", str(pathlib.PurePath(name).parent)]
    if name.startswith("src/pytorch/"):
        command += ["-isystem", PYTORCH]
    command += ["-include", name, "/dev/null"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode == 0 or (WANTS_PYTORCH.search(done.stderr) and not pathlib.Path(PYTORCH).exists()):
        return None
    first = next((l for l in done.stderr.splitlines() if "error" in l), done.stderr.strip()[:300])
    return f"{name}:1: does not compile alone: {first}"


def check_headers(root, compiler, jobs, everything):
    files = set(list_files(root))
    names = [n for n in sorted(files) if n.endswith(".h") and n.split("/")[0] in {"src", "tests", "bench", "fuzz"}
             and (everything or n[:-2] + ".cpp" not in files)]
    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        results = list(pool.map(lambda n: compile_header(root, compiler, n), names))
    return [r for r in results if r], len(names)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["rules", "headers"])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    if arguments.what == "headers":
        findings, count = check_headers(arguments.root, arguments.compiler, arguments.jobs, arguments.all)
    else:
        checker = Checker(arguments.root)
        checker.check_lines()
        checker.check_includes()
        checker.check_dead_files()
        checker.check_functions()
        findings, count = checker.findings, len(checker.files)
    for finding in findings:
        print(finding)
    print(f"{count} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
