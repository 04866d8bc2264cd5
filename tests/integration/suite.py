"""What all files of integration cases share: how a case fails or is skipped, and a run of a file's cases."""

import argparse
import os
import pathlib
import re
import shutil
import time

from softib_fabric import Fabric, FabricError, default_softib, end_in_order


class Mismatch(Exception):
    """The tool did not say what it should."""


class Skip(Exception):
    """This machine lacks what the case needs."""


def check(condition, what):
    if not condition:
        raise Mismatch(what)


def run(fabric, host, *argv, status=0):
    if not shutil.which(argv[0]):
        raise Skip(f"{argv[0]} is not installed")
    got, output = fabric.run(host, list(argv))
    check(got == status, f"{' '.join(argv)}: status {got}\n{output}")
    return output


def need_namespaces(fabric):
    """For a fabric that is up: its hosts are places of their own."""
    where = fabric.status()["namespaces"]
    if where["kind"] != "namespaces":
        raise Skip(f"no namespaces here: {where['note']}")


def wait_for(condition, what, seconds=15):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, what)
        time.sleep(0.1)


def described(softib, text):
    fabric = Fabric(softib)
    path = pathlib.Path(fabric.folder) / "fabric.yaml"
    path.write_text(text)
    fabric.description = str(path)
    return fabric


def report(case, argument, totals):
    try:
        case(argument)
        result, why = "PASS", ""
    except Skip as reason:
        result, why = "SKIP", f" ({reason})"
    except (Mismatch, FabricError, AttributeError, KeyError) as fault:
        result, why = "FAIL", f"\n    {fault}"
    totals[result] += 1
    print(f"{result}  {case.__name__.replace('_', ' ')}{why}", flush=True)


def new_parser(description):
    """Options that all files of cases have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--softib", default=default_softib(), type=os.path.abspath)
    parser.add_argument("--filter", default="", help="regular expression over case names")
    return parser


class Suite:
    """A run of a file's cases: those that --filter lets through, reported and counted."""

    def __init__(self, parser):
        self.arguments = parser.parse_args()
        self.totals = {"PASS": 0, "FAIL": 0, "SKIP": 0}
        end_in_order()

    def chosen(self, cases):
        return [case for case in cases if re.search(self.arguments.filter, case.__name__)]

    def alone(self, cases):
        """Cases that bring up fabrics of their own, given the path of softib."""
        for case in self.chosen(cases):
            report(case, self.arguments.softib, self.totals)

    def on(self, text, cases):
        """Cases that share a fabric."""
        cases = self.chosen(cases)
        if not cases:
            return
        with described(self.arguments.softib, text) as fabric:
            for case in cases:
                report(case, fabric, self.totals)

    def run_each(self, cases, argument):
        """Cases that share what the caller has brought up."""
        for case in cases:
            report(case, argument, self.totals)

    def skip_each(self, cases, reason):
        for case in cases:
            self.totals["SKIP"] += 1
            print(f"SKIP  {case.__name__.replace('_', ' ')} ({reason})", flush=True)

    def conclude(self):
        """Prints the totals; the exit status."""
        print("{PASS} passed, {FAIL} failed, {SKIP} skipped".format(**self.totals))
        return 1 if self.totals["FAIL"] else 0


def main_of(description, cases):
    """The main of a file whose cases bring up fabrics of their own."""
    suite = Suite(new_parser(description))
    suite.alone(cases)
    return suite.conclude()
