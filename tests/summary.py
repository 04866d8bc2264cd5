#!/usr/bin/env python3
"""Adds up what test logs say and prints `N passed, N failed, N skipped`.

    summary.py [--ctest LastTest.log]... [--log FILE]...
    summary.py --failures LastTest.log      the lines that tell why its tests failed, instead

A ctest log counts what each test counted itself (a line `N passed, N failed, N skipped`, GoogleTest's or unittest's
totals), else one a test. In a plain log all such lines count.
"""

import argparse
import re
import sys

OWN = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped", re.M)
GTEST = re.compile(r"^\[  PASSED  \] (\d+) tests?\.", re.M)
GTEST_SKIPPED = re.compile(r"^\[  SKIPPED \] (\d+) tests?,", re.M)
GTEST_FAILED = re.compile(r"^\[  FAILED  \] (\d+) tests?,", re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*?\n\n(OK|FAILED)(.*)$", re.M | re.S)
SECTION = re.compile(r"^\d+/\d+ Testing: .*?(?=^\d+/\d+ Testing: |^End testing: |\Z)", re.M | re.S)

GTEST_CASE = re.compile(r"^\[ RUN      \] (\S+)\n.*?^\[  FAILED  \] \1 \(.*?$", re.M | re.S)
LINES_OF_A_FAILURE = 25


def first_number(pattern, text):
    return sum(int(m) for m in pattern.findall(text))


def count_text(text):
    """(passed, failed, skipped) that a test's output tells, or None."""
    own = [tuple(map(int, m)) for m in OWN.findall(text)]
    if own:
        return tuple(map(sum, zip(*own)))
    if GTEST.search(text):
        return tuple(first_number(p, text) for p in (GTEST, GTEST_FAILED, GTEST_SKIPPED))
    ran = UNITTEST.search(text)
    if ran:
        kinds = {k: int(n) for k, n in re.findall(r"(failures|errors|skipped)=(\d+)", ran.group(3).split("\n")[0])}
        failed = kinds.get("failures", 0) + kinds.get("errors", 0)
        skipped = kinds.get("skipped", 0)
        return int(ran.group(1)) - failed - skipped, failed, skipped
    return None


def count_section(text):
    """One ctest entry. Its verdict has the last word."""
    if re.search(r'^Command: ""$', text, re.M):
        return 0, 1, 0  # ctest found no such program, and yet writes "Test Passed"
    # "Pass Reason" is written of tests with a PASS_REGULAR_EXPRESSION.
    passed = re.search(r"^Test (Passed\.|Pass Reason:)$", text, re.M) is not None
    counted = count_text(text)
    if "Test time =" in text and re.search(r"^Test (Skipped|Not Run)", text, re.M) and not counted:
        return 0, 0, 1
    if counted is None:
        return (1, 0, 0) if passed else (0, 1, 0)
    if not passed and counted[1] == 0:
        return counted[0], 1, counted[2]
    return counted


def last_lines(text):
    return ["  " + line for line in text.splitlines() if line.strip()][-LINES_OF_A_FAILURE:]


def failures(text):
    """Of each failed ctest entry its name and the last lines it wrote; of GoogleTest those of each failed case."""
    told = []
    for section in SECTION.findall(text):
        if count_section(section)[1] == 0:
            continue
        told.append(section.splitlines()[0].split("Testing: ")[-1] + ":")
        cases = [case.group(0) for case in GTEST_CASE.finditer(section)]
        for case in cases or [section.split("\nOutput:\n", 1)[-1].split("<end of output>")[0]]:
            told += last_lines(case)
    return "\n".join(told)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ctest", action="append", default=[])
    parser.add_argument("--log", action="append", default=[])
    parser.add_argument("--failures")
    arguments = parser.parse_args()
    if arguments.failures:
        with open(arguments.failures, errors="replace") as file:
            print(failures(file.read()))
        return
    counts = []
    for name in arguments.ctest:
        with open(name, errors="replace") as file:
            counts += [count_section(section) for section in SECTION.findall(file.read())]
    for name in arguments.log:
        with open(name, errors="replace") as file:
            counts.append(count_text(file.read()) or (0, 0, 0))
    total = [sum(column) for column in zip(*counts)] or [0, 0, 0]
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")


if __name__ == "__main__":
    sys.exit(main())
