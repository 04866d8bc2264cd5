#!/usr/bin/env python3
"""The style check itself: each rule must find what it is for, and leave good code alone."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_style  # noqa: E402

GOOD = """// Good.
#pragma once

#include "base/types.h"

namespace softib::hca {

struct Point {
  int x = 0;
  explicit Point(int v) : x{v} {}
};

inline int twice(int v) { return 2 * v; }

}  // namespace softib::hca
"""


def lines_of(functions):
    return [last - first + 1 for first, last in functions]


class Rules(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("src/base/types.h", "#pragma once\n")
        self.write("src/hca/good.h", GOOD)
        self.write("src/hca/good.cpp", '#include "hca/good.h"\n')
        self.write("src/hca/CMakeLists.txt", "softib_library(x SOURCES good.cpp)\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def findings(self):
        checker = check_style.Checker(self.root)
        checker.check_lines()
        checker.check_includes()
        checker.check_dead_files()
        checker.check_functions()
        return checker.findings

    def assert_found(self, name, text, what):
        self.write(name, text)
        self.assertTrue(any(what in f for f in self.findings()), f"not found: {what}: {self.findings()}")

    def test_a_source_begins_with_its_header(self):
        what = '"good.h" is not the first that it includes'
        self.assertEqual(self.findings(), [])
        self.assert_found("src/hca/good.cpp", '#include <vector>\n\n#include "hca/good.h"\n', what)
        self.assert_found("src/hca/good.cpp", "int x;\n", what)

    def test_good_tree(self):
        self.assertEqual(self.findings(), [])

    def test_include_direction(self):
        self.assert_found("src/base/bad.h", '#pragma once\n#include "hca/good.h"\n', "base may not include hca")

    def test_missing_header(self):
        self.assert_found("src/hca/good.cpp", '#include "hca/gone.h"\n', "does not exist")

    def test_heavy_library(self):
        self.assert_found("src/hca/good.cpp", "#include <spdlog/spdlog.h>\n", "no place")

    def test_pragma(self):
        self.assert_found("src/hca/good.h", "int x();\n", "no #pragma once")

    def test_dead_source(self):
        self.assert_found("src/hca/dead.cpp", "int x;\n", "in no CMakeLists.txt")

    def test_source_named_by_foreach(self):
        self.write("tests/x/one_test.cpp", "int x;\n")
        self.write("tests/x/CMakeLists.txt", "foreach(a IN ITEMS two one)\n  add(${a}_test.cpp)\nendforeach()\n")
        self.assertEqual(self.findings(), [])
        self.write("tests/x/CMakeLists.txt", "foreach(a IN ITEMS two)\n  add(${a}_test.cpp)\nendforeach()\n")
        self.assertNotEqual(self.findings(), [])

    def test_dead_header(self):
        self.assert_found("src/hca/dead.h", "#pragma once\n", "included by nothing")

    def test_lines(self):
        self.assert_found("src/hca/good.cpp", "int x;" + " " * 3 + "\n", "blank at the end")
        self.assert_found("src/hca/good.cpp", "\tint x;\n", "tab")
        self.assert_found("src/hca/good.cpp", "// " + "x" * 120 + "\n", "columns")
        self.assert_found("src/hca/good.cpp", "int x;", "no newline")

    def test_forbidden(self):
        self.assert_found("src/hca/good.cpp", "// FIX" + "ME later\n", "unfinished")
        self.assert_found("src/hca/good.cpp", "// see /ho" + "me/someone/x\n", "one machine")

    def test_long_function(self):
        body = "".join(f"  x += {i} * x;\n" for i in range(80))
        self.assert_found("src/hca/good.cpp", "void f(int x) {\n" + body + "}\n", "function of 82 lines")

    def test_long_table_is_allowed(self):
        rows = "".join(f"    case {i}: return {i};\n" for i in range(80))
        self.write("src/hca/good.cpp",
                   '#include "hca/good.h"\nint f(int x) {\n  switch (x) {\n' + rows + "  }\n}\n")
        self.assertEqual(self.findings(), [])

    def test_long_python(self):
        self.assert_found("tests/long.py", "def f():\n" + "    print()\n" * 80, "function of 81 lines")


class Scanner(unittest.TestCase):
    def test_shapes(self):
        for text, expected in [
            ("int f() {\n}\n", [2]),
            ("namespace a {\nint f() {\n}\n}\n", [2]),
            ("A::A(int x)\n    : x_{x},\n      y_(x) {\n}\n", [4]),
            ("A::A(int x) : x_{x} {\n\n}\n", [3]),
            ("int table[] = {\n1,\n2};\n", []),
            ("auto f() -> int {\n  if (x) {\n  }\n}\n", [4]),
            ("bool operator==(const A& a) {\n}\n", [2]),
            ("struct A {\n  void f() const {\n  }\n  int x{0};\n  void g() {\n\n  }\n};\n", [2, 3]),
            ('const char* f() {\n  return "}";  // }\n}\n', [3]),
            ('extern "C" {\nint f() {\n}\n}\n', [2]),
            ("int f() { return 1'000; }\nchar g() { return '}'; }\n", [1, 1]),
            ("template <class T>\nstruct A {\n  T f(T x) {\n  }\n};\n", [2]),
        ]:
            self.assertEqual(lines_of(check_style.cpp_functions(text)), expected, text)


if __name__ == "__main__":
    unittest.main()
