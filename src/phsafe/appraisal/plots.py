"""Pictures as plain SVG: they need nothing else, and follow a light or dark screen and paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import floor, log10

from phsafe.appraisal.curves import Curve
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
WIDTH, HEIGHT = 230, 166
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 10, 40, 22
#: Errors beyond so many times the least one are cut off: what matters is around the minimum.
CUT = 4.0


def panel(curves: Sequence[Curve], title: str, number: int) -> str:
    """One tabulation at one level: total error, its two parts, and the minimum of each curve, WIDTH × HEIGHT."""
    taus = sorted({point.tau for curve in curves for point in curve.points})
    totals = [point.total for curve in curves for point in curve.points]
    top = min(1.12 * max(totals), CUT * max(curve.best.total for curve in curves))

    def x(tau: float) -> float:
        return _LEFT + 8 + (WIDTH - _LEFT - _RIGHT - 16) * (tau - taus[0]) / max(taus[-1] - taus[0], 1)

    def y(error: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _BOTTOM - _TOP) * error / top

    def path(kind: str, curve: Curve, values: Iterable[float]) -> str:
        places = " ".join(f"{x(p.tau):.1f},{y(v):.1f}" for p, v in zip(curve.points, values, strict=True))
        return f'<polyline class="{kind}" points="{places}" clip-path="url(#clip{number})"/>'

    parts = [
        f'<clipPath id="clip{number}"><rect x="{_LEFT}" y="{_TOP - 4}" width="{WIDTH - _LEFT}" '
        f'height="{HEIGHT - _BOTTOM - _TOP + 5}"/></clipPath>',
        f'<text class="strong" x="{_LEFT}" y="14">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="28">least at {escape(", ".join(curve.least for curve in curves))}</text>',
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
            f'<circle class="d{i % COLOURS}" cx="{x(p.tau):.1f}" cy="{y(p.seen):.1f}" r="2"/>'
            for p in curve.points
            if p.seen <= top
        ]
    parts += [
        f'<circle class="best s{i % COLOURS}" cx="{x(curve.best.tau):.1f}" cy="{y(curve.best.total):.1f}" r="4.2"/>'
        for i, curve in enumerate(curves)
    ]
    return "".join(parts)


def panel_title(curve: Curve) -> str:
    """What a panel is about."""
    return f"{curve.tabulation} {curve.level.label.strip('()')}"


def _nice(top: float) -> float:
    """A round number about two fifths of the way up."""
    unit = 10 ** floor(log10(max(top, 1e-9) * 0.4))
    return float(max(step for step in (1, 2, 2.5, 5, 10) if step * unit <= 0.45 * top) * unit)


def svg(inner: str, width: float, height: float, label: str, style: str | None = None) -> Html:
    """A picture in a page."""
    return el("svg", Html(inner), viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=label, style=style)


def matrix(found: Mapping[tuple[str, str], Sequence[Curve]], title: str, subtitle: str) -> str:
    """The whole picture, standing alone: a row for each tabulation and a column for each level."""
    rows = list(dict.fromkeys(name for name, _ in found))
    columns = list(dict.fromkeys(key for _, key in found))
    width, height = len(columns) * (WIDTH + 14) + 24, len(rows) * (HEIGHT + 14) + 100
    parts = [
        f'<text class="strong" x="16" y="28" style="font-size: 18px">{escape(title)}</text>',
        f'<text x="16" y="48" style="font-size: 12.5px">{escape(subtitle)}</text>',
        f'<g transform="translate(16 66)">{_legend(next(iter(found.values())))[0]}</g>',
    ]
    for number, ((name, key), curves) in enumerate(found.items()):
        place = (16 + columns.index(key) * (WIDTH + 14), 84 + rows.index(name) * (HEIGHT + 14))
        label = panel_title(curves[0])
        parts.append(f'<g transform="translate({place[0]} {place[1]})">{panel(curves, label, number)}</g>')
    return el(
        "svg",
        el("title", title),
        Html(f"<style>{STYLE}</style>"),
        el("rect", class_="ground", width="100%", height="100%"),
        Html("".join(parts)),
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}", width=width, height=height, role="img",
    )  # fmt: skip


def legend(curves: Sequence[Curve]) -> Html:
    """What the lines are, as a picture in a page; one entry for each budget where there are several."""
    inner, width = _legend(curves)
    return svg(f'<g transform="translate(4 12)">{inner}</g>', width + 8, 24, "Key", f"width: {width + 8}px")


def _legend(curves: Sequence[Curve]) -> tuple[str, int]:
    """The legend and its width."""
    several = len(curves) > 1
    lines = [
        (f"total s{i % COLOURS}", f"total error, budgets × {curve.scale:g}" if several else "total error")
        for i, curve in enumerate(curves)
    ]
    lines += [("noise s0", "part due to noise"), ("truncation", "part due to truncation")]
    marks = [("best s0", "least total error"), ("d0", "measured")]
    parts, place = [], 0
    for kind, words in (*lines, *marks):
        if (kind, words) in lines:
            parts.append(f'<line class="{kind}" x1="{place}" x2="{place + 26}" y1="0" y2="0"/>')
            place += 32
        else:
            parts.append(f'<circle class="{kind}" cx="{place + 4}" cy="0" r="{4.2 if "best" in kind else 2.4}"/>')
            place += 14
        parts.append(f'<text x="{place}" y="4">{escape(words)}</text>')
        place += round(6.6 * len(words)) + 14
    return "".join(parts), place


def strip(low: float, high: float, dots: Sequence[tuple[float, str]], at: float, ends: tuple[float, float]) -> Html:
    """A band, dots, and the value they should be at, on a line from one end to the other: a picture in a table."""

    def x(value: float) -> float:
        return 4 + 112 * (min(max(value, ends[0]), ends[1]) - ends[0]) / (ends[1] - ends[0])

    parts = [f'<line class="band" x1="{x(low):.1f}" x2="{x(high):.1f}" y1="8" y2="8"/>'] if high > low else []
    parts.append(f'<line class="at" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="1" y2="15"/>')
    parts += [f'<circle class="{kind}" cx="{x(value):.1f}" cy="8" r="3.2"/>' for value, kind in dots]
    return el("svg", Html("".join(parts)), class_="strip", viewBox="0 0 120 16", aria_hidden="true")
