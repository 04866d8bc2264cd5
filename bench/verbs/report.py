"""Samples, the bars that they are held to, and the two tables: on the terminal and in docs/performance.md."""

import os
import platform
import re
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

AT_MOST = "at most"
AT_LEAST = "at least"


@dataclass(frozen=True)
class Spread:
    median: float
    low: float
    high: float

    @staticmethod
    def of(values) -> Optional["Spread"]:
        values = list(values)
        return Spread(statistics.median(values), min(values), max(values)) if values else None


@dataclass(frozen=True)
class Sample:
    """One measurement, and what the machine's floor was right before and after it."""
    value: float
    floor: Optional[float] = None


@dataclass
class Series:
    """The same measurement, round by round."""
    label: str
    unit: str
    samples: list = field(default_factory=list)
    problem: str = ""

    def values(self) -> Optional[Spread]:
        return Spread.of(sample.value for sample in self.samples)

    def floors(self) -> Optional[Spread]:
        return Spread.of(sample.floor for sample in self.samples if sample.floor is not None)

    def ratio(self) -> Optional[Spread]:
        return Spread.of(sample.value / sample.floor for sample in self.samples if sample.floor)


@dataclass(frozen=True)
class Bar:
    text: str
    direction: str
    limit: float
    unit: str

    def reached(self, value: float) -> bool:
        return value <= self.limit if self.direction == AT_MOST else value >= self.limit


@dataclass(frozen=True)
class Verdict:
    bar: Bar
    measured: Optional[Spread]
    problem: str = ""

    def word(self) -> str:
        if self.measured is None:
            return "not measured"
        return "reached" if self.bar.reached(self.measured.median) else "not reached"


def figure(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def spread_text(spread: Optional[Spread], unit: str = "") -> str:
    if spread is None:
        return "-"
    unit = f" {unit}" if unit else ""
    if spread.low == spread.high:
        return f"{figure(spread.median)}{unit}"
    return f"{figure(spread.median)}{unit} ({figure(spread.low)} to {figure(spread.high)})"


# -- tables

def verdict_rows(verdicts: list) -> list:
    rows = [("what", "asked", "measured", "")]
    for verdict in verdicts:
        bar = verdict.bar
        asked = f"{bar.direction} {figure(bar.limit)}{' ' + bar.unit if bar.unit else ''}"
        measured = verdict.problem or spread_text(verdict.measured, bar.unit)
        rows.append((bar.text, asked, measured, verdict.word()))
    return rows


def series_rows(series: list, floor_name: str) -> list:
    rows = [("measurement", "median (lowest to highest)", floor_name, "ratio")]
    for one in series:
        value = one.problem or spread_text(one.values(), one.unit)
        rows.append((one.label, value, spread_text(one.floors(), one.unit), spread_text(one.ratio())))
    if all(row[2] == row[3] == "-" for row in rows[1:]):
        return [row[:2] for row in rows]
    return rows


def plain_table(rows: list) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def markdown_table(rows: list) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


# -- the page

def first_match(path: str, pattern: str, otherwise: str) -> str:
    try:
        found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    except OSError:
        return otherwise
    return found.group(1).strip() if found else otherwise


def machine_facts() -> list:
    memory_kib = int(first_match("/proc/meminfo", r"^MemTotal:\s+(\d+)", "0"))
    flags = first_match("/proc/cpuinfo", r"^flags\s*:(.*)$", "")
    huge = first_match("/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]", "unknown")
    return [
        ("processor", first_match("/proc/cpuinfo", r"^model name\s*:(.*)$", platform.machine())),
        ("cores", str(os.cpu_count())),
        ("memory", f"{memory_kib / (1 << 20):.0f} GiB"),
        ("virtual machine", "yes" if " hypervisor" in flags else "no"),
        ("kernel", platform.release()),
        ("transparent huge pages", huge),
        ("system", first_match("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)', "unknown")),
        ("date", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())),
    ]


@dataclass(frozen=True)
class Section:
    title: str
    text: str
    rows: list


def as_text(sections: list) -> str:
    return "\n\n".join(f"{section.title}\n\n{plain_table(section.rows)}" for section in sections)


def as_page(sections: list, command: str, notes: list, title: str = "Performance") -> str:
    parts = [f"# {title}", f"Made by `{command}`; do not edit, run it again.",
             markdown_table([("machine", "")] + machine_facts())]
    parts += notes
    for section in sections:
        parts += [f"## {section.title}", section.text, markdown_table(section.rows)]
    return "\n\n".join(part for part in parts if part) + "\n"


def put_page(path: Path, title: str, page: str):
    """Writes the page into a file that others write theirs into as well: each begins with its title."""
    text = path.read_text() if path.exists() else ""
    pages = [part for part in re.split(r"^(?=# )", text, flags=re.MULTILINE) if part.strip()]
    titles = [part.splitlines()[0][2:].strip() for part in pages]
    if title in titles:
        pages[titles.index(title)] = page
    else:
        pages.append(page)
    path.write_text("\n".join(part.rstrip("\n") + "\n" for part in pages))
