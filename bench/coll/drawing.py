"""Curves over sizes, both axes logarithmic, as SVG: like those of the --plot of all_reduce_perf."""

import math
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 740, 45, 400
# Told apart by people who see few colours too (Okabe and Ito).
COLORS = ("#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#000000")


@dataclass(frozen=True)
class Curve:
    name: str
    points: tuple  # of (size, value), both above 0


@dataclass(frozen=True)
class Axis:
    base: int
    first: int  # powers of base
    last: int
    begin: float
    end: float

    def place(self, value: float) -> float:
        power = math.log(value, self.base)
        return self.begin + (power - self.first) / (self.last - self.first) * (self.end - self.begin)


def axis_over(values: list, base: int, begin: float, end: float) -> Axis:
    # A hair of tolerance: math.log(1000, 10) is a little below 3.
    first = math.floor(math.log(min(values), base) + 1e-9)
    last = math.ceil(math.log(max(values), base) - 1e-9)
    return Axis(base, first, max(last, first + 1), begin, end)


def size_label(power: int) -> str:
    return f"{1 << power % 10} {('B', 'KiB', 'MiB', 'GiB')[power // 10]}"


def text_at(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(text)}</text>'


def grid(across: Axis, up: Axis) -> list:
    parts = []
    for power in range(-(-across.first // 5) * 5, across.last + 1, 5):
        x = across.place(2 ** power)
        parts.append(f'<path d="M{x:.0f} {TOP}V{BOTTOM}" stroke="#ddd"/>')
        parts.append(text_at(x, BOTTOM + 18, "middle", size_label(power)))
    for power in range(up.first, up.last + 1):
        y = up.place(10 ** power)
        parts.append(f'<path d="M{LEFT} {y:.0f}H{RIGHT}" stroke="#ddd"/>')
        parts.append(text_at(LEFT - 8, y + 4, "end", f"{10.0 ** power:g}"))
    return parts


def drawn(curve: Curve, color: str, row: float, across: Axis, up: Axis) -> list:
    places = [(across.place(size), up.place(value)) for size, value in curve.points]
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    parts = [f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="1.5"/>']
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{color}"/>' for x, y in places]
    parts.append(f'<path d="M{LEFT + 10} {row - 4:.0f}h20" stroke="{color}" stroke-width="3"/>')
    parts.append(text_at(LEFT + 36, row, "start", curve.name))
    return parts


def svg(title: str, unit: str, curves: list) -> str:
    """Curves without points are left out."""
    curves = [curve for curve in curves if curve.points]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
             f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             text_at((LEFT + RIGHT) / 2, 26, "middle", title)]
    if curves:
        across = axis_over([size for curve in curves for size, _ in curve.points], 2, LEFT, RIGHT)
        up = axis_over([value for curve in curves for _, value in curve.points], 10, BOTTOM, TOP)
        parts += grid(across, up)
        parts.append(text_at((LEFT + RIGHT) / 2, BOTTOM + 42, "middle", "size"))
        parts.append(f'<g transform="translate(18,{(TOP + BOTTOM) / 2:.0f}) rotate(-90)">'
                     f'{text_at(0, 0, "middle", unit)}</g>')
        for number, curve in enumerate(curves):
            parts += drawn(curve, COLORS[number % len(COLORS)], TOP + 14 + 15 * number, across, up)
    return "\n".join([*parts, "</svg>"]) + "\n"
