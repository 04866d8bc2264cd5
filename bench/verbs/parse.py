"""What perftest and qperf print, as numbers. Rates are in bytes and messages a second, times in seconds."""

import re
from dataclasses import dataclass

MIB = 1 << 20


class ParseError(Exception):
    """The output holds no result line of the kind asked for."""


@dataclass(frozen=True)
class Latency:
    size: int
    iterations: int
    typical: float
    average: float
    p99: float


@dataclass(frozen=True)
class Bandwidth:
    size: int
    iterations: int
    bytes_per_second: float
    messages_per_second: float


def result_rows(output: str):
    """The lines of numbers under perftest's `#bytes` heading, split into floats."""
    under_heading = False
    for line in output.splitlines():
        fields = line.split()
        if fields[:1] == ["#bytes"]:
            under_heading = True
        elif under_heading and fields and all(re.fullmatch(r"[0-9.]+", field) for field in fields):
            yield [float(field) for field in fields]


def only_row(output: str, columns: int) -> list:
    rows = [row for row in result_rows(output) if len(row) == columns]
    if len(rows) != 1:
        shown = " / ".join(output.split("\n")[-4:]).strip()
        raise ParseError(f"{len(rows)} result lines of {columns} columns, not one: {shown}")
    return rows[0]


def perftest_latency(output: str) -> Latency:
    """`#bytes #iterations t_min t_max t_typical t_avg t_stdev 99% 99.9%`, microseconds; t_typical is the median."""
    row = only_row(output, 9)
    return Latency(int(row[0]), int(row[1]), row[4] * 1e-6, row[5] * 1e-6, row[7] * 1e-6)


def perftest_bandwidth(output: str) -> Bandwidth:
    """`#bytes #iterations peak average MsgRate`, in units that perftest names MB (2^20) and Mpps.

    The message rate has six decimals and the bandwidth two, so for small messages the rate is the better number.
    """
    if "BW average[MB/sec]" not in output and "BW average[MiB/sec]" not in output:
        raise ParseError("no bandwidth heading in MB/sec")
    row = only_row(output, 5)
    return Bandwidth(int(row[0]), int(row[1]), row[3] * MIB, row[4] * 1e6)


QPERF_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1.0,
               "bytes/sec": 1.0, "KB/sec": 1e3, "MB/sec": 1e6, "GB/sec": 1e9}


def qperf(output: str) -> dict:
    """`name  =  number unit` lines; gives the numbers in seconds, or bytes a second."""
    values = {}
    for name, number, unit in re.findall(r"^\s+(latency|bw)\s*=\s*([0-9,.]+)\s+(\S+)\s*$", output, re.MULTILINE):
        if unit not in QPERF_UNITS:
            raise ParseError(f"qperf unit {unit!r}")
        values[name] = float(number.replace(",", "")) * QPERF_UNITS[unit]
    return values
