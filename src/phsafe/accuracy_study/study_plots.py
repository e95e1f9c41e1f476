"""Plots of an accuracy study as plain SVG, for light and dark screens and paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import floor, log10

from phsafe.accuracy_study.threshold_curves import Curve
from phsafe.display.html import Html, el

STYLE = """
svg text { font: 11px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #566277 }
svg .strong { fill: #15202e; font-weight: 600 } svg .axis { stroke: #c9d1de; fill: none } svg .ground { fill: #fff }
svg .total { fill: none; stroke-width: 2.2 } svg .noise { fill: none; stroke-width: 1.4; stroke-dasharray: 5 3 }
svg .truncation { fill: none; stroke: #8a5a00; stroke-width: 1.6; stroke-dasharray: 1.5 2.5 }
svg .s0 { stroke: #1757ad } svg .s1 { stroke: #0b7f5c } svg .s2 { stroke: #a02f7e } svg .s3 { stroke: #7a5af0 }
svg .d0 { fill: #1757ad } svg .d1 { fill: #0b7f5c } svg .d2 { fill: #a02f7e } svg .d3 { fill: #7a5af0 }
svg .best { fill: #fff; stroke-width: 2.4 } svg .band { stroke: #b9c6da; stroke-width: 6 } svg .bad { fill: #b3261e }
svg .at { stroke: #566277; stroke-dasharray: 2 2 }
@media screen and (prefers-color-scheme: dark) {
svg text { fill: #9fadc0 } svg .strong { fill: #e7ecf3 } svg .axis { stroke: #3a4757 } svg .ground { fill: #181e27 }
svg .truncation { stroke: #f4c15d } svg .s0 { stroke: #7db4ff } svg .s1 { stroke: #63d5a6 } svg .s2 { stroke: #f08ccf }
svg .s3 { stroke: #b9a5ff } svg .d0 { fill: #7db4ff } svg .d1 { fill: #63d5a6 } svg .d2 { fill: #f08ccf }
svg .d3 { fill: #b9a5ff } svg .best { fill: #181e27 } svg .band { stroke: #3d4b60 } svg .bad { fill: #ff9088 }
svg .at { stroke: #9fadc0 } }
"""
COLOURS = 4
WIDTH, HEIGHT = 230, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 10, 54, 22
#: Errors above this multiple of the lowest one are cut off, because what matters is near the minimum.
CUT = 4.0


def panel(curves: Sequence[Curve], number: int) -> str:
    """A plot of one tabulation at one level: total error, its two parts, and the minimum of each curve.

    Args:
        curves: One curve for each budget scale.
        number: Unique number of the panel within the document, for its clip path.

    Returns:
        The content of an SVG element of WIDTH × HEIGHT.
    """
    taus = sorted({point.tau for curve in curves for point in curve.points})
    totals = [point.total for curve in curves for point in curve.points]
    top = min(1.12 * max(totals), CUT * max(curve.best.total for curve in curves))

    def x(tau: float) -> float:
        return _LEFT + 8 + (WIDTH - _LEFT - _RIGHT - 16) * (tau - taus[0]) / max(taus[-1] - taus[0], 1)

    def y(error: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _BOTTOM - _TOP) * error / top

    def path(class_: str, curve: Curve, values: Iterable[float]) -> str:
        points = " ".join(f"{x(p.tau):.1f},{y(v):.1f}" for p, v in zip(curve.points, values, strict=True))
        return f'<polyline class="{class_}" points="{points}" clip-path="url(#clip{number})"/>'

    parts = [
        f'<clipPath id="clip{number}"><rect x="{_LEFT}" y="{_TOP - 4}" width="{WIDTH - _LEFT}" '
        f'height="{HEIGHT - _BOTTOM - _TOP + 5}"/></clipPath>',
        f'<text class="strong" x="{_LEFT}" y="14">{escape(curves[0].tabulation)}</text>',
        f'<text x="{_LEFT}" y="28">{escape(curves[0].level.label)}</text>',
        f'<text x="{_LEFT}" y="42">lowest at {escape(", ".join(curve.best_tau for curve in curves))}</text>',
        f'<path class="axis" d="M{_LEFT} {_TOP - 4} V{HEIGHT - _BOTTOM} H{WIDTH - _RIGHT + 4}"/>',
    ]
    for tick in (0.0, _nice(top), 2 * _nice(top)):
        if tick <= top:
            parts.append(f'<text x="{_LEFT - 5}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,.6g}</text>')
    for i, tau in enumerate(taus):
        if len(taus) <= 8 or i % 2 == 0:
            parts.append(f'<text x="{x(tau):.1f}" y="{HEIGHT - 7}" text-anchor="middle">{tau}</text>')
    parts.append(path("truncation", curves[0], [p.truncation for p in curves[0].points]))
    for i, curve in enumerate(curves):
        parts.append(path(f"noise s{i % COLOURS}", curve, [p.noise for p in curve.points]))
        parts.append(path(f"total s{i % COLOURS}", curve, [p.total for p in curve.points]))
        parts += [
            f'<circle class="d{i % COLOURS}" cx="{x(p.tau):.1f}" cy="{y(p.measured):.1f}" r="2"/>'
            for p in curve.points
            if p.measured <= top
        ]
    parts += [
        f'<circle class="best s{i % COLOURS}" cx="{x(curve.best.tau):.1f}" cy="{y(curve.best.total):.1f}" r="4.2"/>'
        for i, curve in enumerate(curves)
    ]
    return "".join(parts)


def _nice(top: float) -> float:
    """A round number for the first axis tick, about two fifths of the way up."""
    unit = 10 ** floor(log10(max(top, 1e-9) * 0.4))
    return float(max(step for step in (1, 2, 2.5, 5, 10) if step * unit <= 0.45 * top) * unit)


def svg(inner: str, width: float, height: float, label: str, style: str | None = None) -> Html:
    """A plot to embed in a page, with a label for screen readers."""
    return el("svg", Html(inner), viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=label, style=style)


def matrix(found: Mapping[tuple[str, str], Sequence[Curve]], title: str, subtitle: str) -> str:
    """All panels as a standalone SVG file: a row for each tabulation and a column for each level."""
    rows = list(dict.fromkeys(name for name, _ in found))
    columns = list(dict.fromkeys(key for _, key in found))
    width, height = len(columns) * (WIDTH + 14) + 24, len(rows) * (HEIGHT + 14) + 100
    parts = [
        f'<text class="strong" x="16" y="28" style="font-size: 18px">{escape(title)}</text>',
        f'<text x="16" y="48" style="font-size: 12.5px">{escape(subtitle)}</text>',
        f'<g transform="translate(16 66)">{_legend(next(iter(found.values())))[0]}</g>',
    ]
    for number, ((name, key), curves) in enumerate(found.items()):
        position = (16 + columns.index(key) * (WIDTH + 14), 84 + rows.index(name) * (HEIGHT + 14))
        parts.append(f'<g transform="translate({position[0]} {position[1]})">{panel(curves, number)}</g>')
    return el(
        "svg",
        el("title", title),
        Html(f"<style>{STYLE}</style>"),
        el("rect", class_="ground", width="100%", height="100%"),
        Html("".join(parts)),
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}", width=width, height=height, role="img",
    )  # fmt: skip


def legend(curves: Sequence[Curve]) -> Html:
    """The legend as an element of a page, with one entry for each budget scale if there are several."""
    inner, width = _legend(curves)
    return svg(f'<g transform="translate(4 12)">{inner}</g>', width + 8, 24, "Key", f"width: {width + 8}px")


def _legend(curves: Sequence[Curve]) -> tuple[str, int]:
    """The content of the legend and its width."""
    several = len(curves) > 1
    lines = [
        (f"total s{i % COLOURS}", f"total error, budgets × {curve.scale:g}" if several else "total error")
        for i, curve in enumerate(curves)
    ]
    lines += [("noise s0", "part due to noise"), ("truncation", "part due to truncation")]
    marks = [("best s0", "lowest total error"), ("d0", "measured")]
    parts, x = [], 0
    for class_, label in (*lines, *marks):
        if (class_, label) in lines:
            parts.append(f'<line class="{class_}" x1="{x}" x2="{x + 26}" y1="0" y2="0"/>')
            x += 32
        else:
            parts.append(f'<circle class="{class_}" cx="{x + 4}" cy="0" r="{4.2 if "best" in class_ else 2.4}"/>')
            x += 14
        parts.append(f'<text x="{x}" y="4">{escape(label)}</text>')
        x += round(6.6 * len(label)) + 14
    return "".join(parts), x


def strip(low: float, high: float, dots: Sequence[tuple[float, str]], at: float, ends: tuple[float, float]) -> Html:
    """A small plot for a table cell: a band, dots and the expected value, on a scale between `ends`.

    Args:
        low: Lower end of the band.
        high: Upper end of the band; there is no band unless it is above `low`.
        dots: Values with their CSS classes.
        at: The expected value, drawn as a dashed line.
        ends: The range of the scale; values beyond are drawn at its ends.
    """

    def x(value: float) -> float:
        return 4 + 112 * (min(max(value, ends[0]), ends[1]) - ends[0]) / (ends[1] - ends[0])

    parts = [f'<line class="band" x1="{x(low):.1f}" x2="{x(high):.1f}" y1="8" y2="8"/>'] if high > low else []
    parts.append(f'<line class="at" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="1" y2="15"/>')
    parts += [f'<circle class="{class_}" cx="{x(value):.1f}" cy="8" r="3.2"/>' for value, class_ in dots]
    return el("svg", Html("".join(parts)), class_="strip", viewBox="0 0 120 16", aria_hidden="true")
