"""What the timing programs print, by round, and what follows of it: ratios, verdicts and tables."""

import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "verbs"))

import report  # noqa: E402
from report import AT_LEAST, AT_MOST, Bar, Section, Spread, Verdict  # noqa: E402

MIB = 1 << 20
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast")
SLOW = 256 << 10  # from here on tables tell the bandwidth instead of the time

ONE_HOST, TWO_HOSTS = "one host", "two hosts"
DUEL = "duel"  # on one host, with nothing else in between
ALLOCATED, ORDINARY, OPEN_MPI, OPEN_MPI_TCP, MPICH, GLOO = (
    "allocated", "ordinary", "openmpi", "openmpi tcp", "mpich", "gloo")
RIVALS = (OPEN_MPI, MPICH, GLOO)
PLACEMENTS = ("out", "in")
MEMORY = {ALLOCATED: "memory of allocate()", ORDINARY: "ordinary memory"}
EACH_WAY = "each way"  # the floor that ib_write_bw -b gives


class OutputError(Exception):
    """A timing program's output that is not as it should be."""


@dataclass(frozen=True)
class Row:
    collective: str
    placement: str
    size: int
    operations: int
    seconds: float
    wrong: int


def parse_rows(output: str) -> list:
    """Of `coll COLLECTIVE out|in BYTES OPERATIONS SECONDS WRONG` lines; others are the library's own."""
    rows = []
    for line in output.splitlines():
        words = line.split()
        if words[:1] != ["coll"]:
            continue
        try:
            _, collective, placement, size, operations, seconds, wrong = words
            rows.append(Row(collective, placement, int(size), int(operations), float(seconds), int(wrong)))
        except ValueError:
            raise OutputError(f"no result line: {line}") from None
    if not rows:
        raise OutputError("no result lines")
    return rows


def bus_factor(collective: str, ranks: int) -> float:
    """Bus bandwidth over size by time, as nccl-tests reckons it."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return 1.0 if collective in ("broadcast", "copy") else (ranks - 1) / ranks


@dataclass(frozen=True)
class Point:
    """What was measured: where, whose, and what."""
    scene: str  # ONE_HOST, TWO_HOSTS, or the number of ranks on one host
    way: str
    collective: str
    placement: str
    size: int


@dataclass
class Results:
    times: dict = field(default_factory=dict)     # of a Point, by round, in seconds
    floors: dict = field(default_factory=dict)    # of a name, by round
    problems: dict = field(default_factory=dict)  # of a (scene, way), the last one
    scenes: set = field(default_factory=set)      # that were tried
    wrong: int = 0

    def add(self, scene: str, way: str, number: int, rows: list):
        for row in rows:
            point = Point(scene, way, row.collective, row.placement, row.size)
            self.times.setdefault(point, {})[number] = row.seconds
            self.wrong += row.wrong

    def add_floor(self, name: str, number: int, value: float):
        self.floors.setdefault(name, {})[number] = value

    def of(self, *words) -> dict:
        return self.times.get(Point(*words), {})

    def median(self, *words):
        found = self.of(*words)
        return statistics.median(found.values()) if found else None

    def sizes(self, scene: str) -> list:
        return sorted({point.size for point in self.times if point.scene == scene and point.collective != "copy"})


def round_ratios(above: dict, below: dict) -> list:
    """Of the rounds that have both."""
    return [above[number] / below[number] for number in above if number in below]


def least(several: list) -> dict:
    """By round, the quickest of those that were measured in it."""
    numbers = {number for one in several for number in one}
    return {number: min(one[number] for one in several if number in one) for number in numbers}


# -- the bars

class Judge:
    """Each bar beside the median of the rounds' own ratios."""

    def __init__(self, results: Results):
        self.results = results
        self.verdicts = []

    def bar(self, text: str, direction: str, limit: float, ratios: list):
        spread = Spread.of(ratios)
        self.verdicts.append(Verdict(Bar(text, direction, limit, ""), spread, "" if spread else "no result"))

    def one_host(self):
        of = self.results.of
        for placement in PLACEMENTS:
            ours = of(DUEL, ALLOCATED, "all_reduce", placement, 8)
            text = f"one host: 8 B {in_words(placement)}: time, of"
            self.bar(f"{text} Open MPI's", AT_MOST, 1,
                     round_ratios(ours, of(DUEL, OPEN_MPI, "all_reduce", placement, 8)))
            self.bar(f"{text} the hop between two cores", AT_MOST, 2.5,
                     round_ratios(ours, self.results.floors.get("hop", {})))
        for way in (ALLOCATED, ORDINARY):
            for placement in PLACEMENTS:
                self.faster(ONE_HOST, way, placement, MIB, RIVALS, 2)
        self.bar(f"one host: 64 MiB in place, {MEMORY[ALLOCATED]}: bandwidth, of what memcpy allows", AT_LEAST, 0.7,
                 round_ratios(of(ONE_HOST, ALLOCATED, "copy", "out", 64 * MIB),
                              of(ONE_HOST, ALLOCATED, "all_reduce", "in", 64 * MIB)))
        for way in (ALLOCATED, ORDINARY):
            self.faster(ONE_HOST, way, "in", 64 * MIB, RIVALS, 5)

    def faster(self, scene: str, way: str, placement: str, size: int, rivals: tuple, limit: float):
        best = least([self.results.of(scene, rival, "all_reduce", placement, size) for rival in rivals])
        whose = "gloo's" if rivals == (GLOO,) else "the best rival's"
        text = f"{scene}: {size_text(size)} {in_words(placement)}, {MEMORY[way]}: bandwidth, of {whose}"
        self.bar(text, AT_LEAST, limit, round_ratios(best, self.results.of(scene, way, "all_reduce", placement, size)))

    def two_hosts(self):
        of = self.results.of
        for placement in PLACEMENTS:
            self.bar(f"two hosts: 8 B {in_words(placement)}: gloo's time, of this engine's", AT_LEAST, 10,
                     round_ratios(of(TWO_HOSTS, GLOO, "all_reduce", placement, 8),
                                  of(TWO_HOSTS, ALLOCATED, "all_reduce", placement, 8)))
        allowed = {number: 16 * MIB / rate for number, rate in self.results.floors.get(EACH_WAY, {}).items()}
        for placement in PLACEMENTS:
            self.bar(f"two hosts: 16 MiB {in_words(placement)}, {MEMORY[ALLOCATED]}: bandwidth, of what ib_write_bw "
                     "allows", AT_LEAST, 0.8,
                     round_ratios(allowed, of(TWO_HOSTS, ALLOCATED, "all_reduce", placement, 16 * MIB)))
            self.faster(TWO_HOSTS, ALLOCATED, placement, 16 * MIB, (GLOO,), 3)

    def crowd(self, ranks: int):
        self.bar(f"{ranks} ranks on one host, all sizes and collectives: Open MPI's time, yielding, of this engine's",
                 AT_LEAST, 1, self.crowd_ratios(str(ranks)))

    def crowd_ratios(self, scene: str) -> list:
        """Of each round the median over all that was measured."""
        by_round = {}
        for point, ours in self.results.times.items():
            if point.scene != scene or point.way != ALLOCATED:
                continue
            theirs = self.results.of(scene, OPEN_MPI, point.collective, point.placement, point.size)
            for number in ours:
                if number in theirs:
                    by_round.setdefault(number, []).append(theirs[number] / ours[number])
        return [statistics.median(ratios) for ratios in by_round.values()]


def in_words(placement: str) -> str:
    return "in place" if placement == "in" else "out of place"


def verdicts(results: Results, crowds: tuple) -> list:
    """Of the scenes that were tried."""
    judge = Judge(results)
    if DUEL in results.scenes:
        judge.one_host()
    if TWO_HOSTS in results.scenes:
        judge.two_hosts()
    for ranks in crowds:
        if str(ranks) in results.scenes:
            judge.crowd(ranks)
    return judge.verdicts


# -- the tables

def size_text(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size >> 10} KiB" if size >= 1024 else f"{size} B"


def heading(size: int) -> str:
    return f"{size_text(size)}, {'GB/s' if size >= SLOW else 'us'}"


def cell(seconds, collective: str, size: int, ranks: int) -> str:
    if seconds is None:
        return "-"
    if size < SLOW:
        return report.figure(seconds * 1e6)
    return report.figure(bus_factor(collective, ranks) * size / seconds * 1e-9)


def collective_rows(results: Results, scene: str, names: dict, collective: str, placement: str, ranks: int) -> list:
    """Columns are sizes, rows ways; empty where nothing was measured."""
    sizes = [size for size in results.sizes(scene)
             if any(results.of(scene, way, collective, placement, size) for way in names)]
    if not sizes:
        return []
    rows = [("", *map(heading, sizes))]
    for way, name in names.items():
        cells = [cell(results.median(scene, way, collective, placement, size), collective, size, ranks)
                 for size in sizes]
        if any(text != "-" for text in cells):
            rows.append((name, *cells))
        elif (scene, way) in results.problems:
            rows.append((name, results.problems[scene, way], *[""] * (len(sizes) - 1)))
    return rows


def scene_sections(results: Results, scene: str, title: str, names: dict, ranks: int, plots: dict) -> list:
    found = []
    for collective in COLLECTIVES:
        for placement in PLACEMENTS:
            rows = collective_rows(results, scene, names, collective, placement, ranks)
            if rows:
                where = f", {in_words(placement)}" if collective in ("all_reduce", "all_gather") else ""
                pictures = plots.get((scene, collective, placement), [])
                found.append(Section(f"{title}: {collective}{where}", "\n\n".join(pictures), rows))
    return found


def crowd_rows(results: Results, scene: str, names: dict) -> list:
    """Milliseconds would be many digits: all in microseconds."""
    sizes = results.sizes(scene)
    rows = [("", "", *(f"{size_text(size)}, us" for size in sizes))]
    for collective in COLLECTIVES:
        placement = "in" if collective == "broadcast" else "out"
        for way, name in names.items():
            times = [results.median(scene, way, collective, placement, size) for size in sizes]
            if any(times):
                rows.append((collective, name, *("-" if each is None else report.figure(each * 1e6) for each in times)))
    return rows if len(rows) > 1 else []


def floor_rows(results: Results) -> list:
    rows = [("what", "median (lowest to highest)")]
    for name, text, unit, scale in FLOORS:
        spread = Spread.of(value * scale for value in results.floors.get(name, {}).values())
        if spread:
            rows.append((text, report.spread_text(spread, unit)))
    for size in (MIB, 16 * MIB, 64 * MIB, 256 * MIB):
        for way in (ALLOCATED, ORDINARY):
            times = results.of(ONE_HOST, way, "copy", "out", size)
            spread = Spread.of(size / seconds * 1e-9 for seconds in times.values())
            if spread:
                rows.append((f"memcpy of {size_text(size)} by both ranks at once, {MEMORY[way]}: each",
                             report.spread_text(spread, "GB/s")))
    return rows


FLOORS = (("hop", "a flag goes from one core to the other", "ns", 1e9),
          ("ib_write_lat", "two hosts: ib_write_lat, 8 B", "us", 1e6),
          ("one way", "two hosts: ib_write_bw, 16 MiB", "GB/s", 1e-9),
          (EACH_WAY, "two hosts: ib_write_bw -b, 16 MiB: each way", "GB/s", 1e-9))
