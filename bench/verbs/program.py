"""The frame of a benchmark program: options that they share, progress, and an end in order."""

import argparse
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "performance.md"


def progress(text: str):
    print(text, file=sys.stderr, flush=True)


def page_parser(name: str, description: str) -> argparse.ArgumentParser:
    """Of a program that measures in rounds and replaces its own part of the page."""
    parser = argparse.ArgumentParser(prog=name, description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=PAGE,
                        help="the page whose part on this is replaced (default docs/performance.md)")
    parser.add_argument("--no-page", action="store_true", help="only print")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build" / "release", help="where bin/softib lies")
    return parser


def parse_rounds(parser: argparse.ArgumentParser) -> argparse.Namespace:
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds takes at least 1")
    return arguments


def stop_like_ctrl_c(*_):
    raise KeyboardInterrupt


def run_to_the_end(name: str, run, arguments: argparse.Namespace, failure) -> int:
    """The exit code of run(arguments); what has begun is cleaned up after SIGTERM and Ctrl-C too."""
    signal.signal(signal.SIGTERM, stop_like_ctrl_c)
    try:
        return run(arguments)
    except KeyboardInterrupt:
        progress("interrupted")
        return 130
    except failure as problem:
        progress(f"{name}: {problem}")
        return 1
