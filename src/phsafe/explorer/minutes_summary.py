"""A one-page summary of a scenario for meeting minutes: self-contained HTML that prints on one sheet."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from html import escape
from importlib.resources import files
from typing import Any

from phsafe.errors import ConfigError
from phsafe.explorer.figures import Figures
from phsafe.explorer.pinned_groups import tabulation_label
from phsafe.explorer.plain_language import person
from phsafe.explorer.public_tables import Truncation
from phsafe.explorer.scenario_changes import change
from phsafe.explorer.scenario_view import View, short_name
from phsafe.model.exact_numbers import dumps
from phsafe.model.schema import STATES
from phsafe.privacy.budgets import MODE_NOTES, UNITS

#: How long the summary waits for margins after joint estimation, in seconds.
PATIENCE = 10.0
#: What the minutes record besides numbers, with their headings.
MINUTES = {"decision": "Decision", "reason": "Reason", "who": "Decided by", "date": "Date"}
MAX_MINUTES = 500


def summary(view: View, shares: Truncation, minutes: object = None) -> str:
    """Return the summary as HTML. All text from a user or a catalog is escaped.

    Args:
        view: The scenario, its baseline and the pinned groups.
        shares: The shares of people that each threshold drops.
        minutes: The decision, the reason, who decided and when, as strings; any may be left out.

    Raises:
        ConfigError: The minutes are not strings, or too long.
    """
    told = _minutes(minutes)
    figures, name = view.found, view.scenario.name
    config, pins = figures.config, view.pin_answers(PATIENCE)
    where = "50 states and DC" if len(config.states) == 51 else ", ".join(STATES[s] for s in config.states)
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    sentence = view.sentence(pins)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(name)}: privacy and accuracy</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>{_style()}</style></head><body><main class="sheet">
<h1>{escape(name)}</h1>
<p><small>PHSafe parameters, {escape(where)}; generated {now}. No confidential data were used.</small></p>
{told}
<p class="big">{escape(sentence["cost"])} {escape(sentence["person"])}</p>
{_groups(view, pins)}
<h2>Privacy loss of the whole run</h2>
{_totals(view)}
<p>Sensitivity: {escape(MODE_NOTES[config.sensitivity])}.</p>
{_person(figures)}
<h2>90 % margin of error and budget {UNITS[config.privacy]} of a basis cell</h2>
{_levels(figures)}
<p><small>Margin of error by the paper’s formula, 1.645σ; below it, the stated budget. “–”: not published.</small></p>
<h2>People dropped by truncation</h2>
<p>{_truncation(figures, shares)}. <small>Source of the shares: {escape(shares.source)}.</small></p>
<p><small>Config, SHA-256 of the exported file: <code>{config_hash(figures)}</code></small></p>
</main></body></html>
"""


def config_hash(figures: Figures) -> str:
    """Return the SHA-256 of the config as the page exports it."""
    return hashlib.sha256(config_file(figures)).hexdigest()


def config_file(figures: Figures) -> bytes:
    """Return the config as the page exports it."""
    return (dumps(figures.config.to_production()) + "\n").encode()


def _minutes(minutes: object) -> str:
    if minutes is None:
        return ""
    if not isinstance(minutes, Mapping) or not all(isinstance(minutes.get(name, ""), str) for name in MINUTES):
        raise ConfigError(f"minutes: expected text for {', '.join(MINUTES)}")
    long = [name for name in MINUTES if len(minutes.get(name, "")) > MAX_MINUTES]
    if long:
        raise ConfigError(f"minutes, {', '.join(long)}: expected at most {MAX_MINUTES} characters")
    said = {head: minutes[name].strip() for name, head in MINUTES.items() if minutes.get(name, "").strip()}
    lines = "".join(f"<dt>{head}</dt><dd>{escape(text)}</dd>" for head, text in said.items())
    return f"<dl>{lines}</dl>" if lines else ""


def _groups(view: View, pins: list[dict[str, Any]]) -> str:
    """Return the pinned groups as a table and a chart."""
    if not pins:
        return ""
    margins = [(pin["finished" if pin["finished"] else "measured"], _before(pin)) for pin in pins]
    widest = max((min(1.0, each["share"]) for pair in margins for each in pair if each), default=1.0)
    rows = []
    for pin, (now, was) in zip(pins, margins, strict=True):
        changed = pin["change"]["finished" if pin["finished"] else "measured"]
        said = now["sentence"] if now else pin["problem"]
        cells = (now and now["moe_text"], was and was["moe_text"], changed and changed["text"])
        shown = "".join(f"<td>{escape(cell or '–')}</td>" for cell in cells)
        label = f"{escape(pin['label'])}<small>{escape(said or '')}</small>"
        rows.append(f"<tr><td>{label}</td><td>{_picture(now, was, widest)}</td>{shown}</tr>")
    base = escape(_base_name(view))
    heads = f"<th>Group</th><th>± in % of the group</th><th>± now</th><th>± {base}</th><th>Change</th>"
    about = "after joint estimation" if any(pin["finished"] for pin in pins) else "of the noisy counts"
    return (
        f"<h2>Pinned groups: 90 % margin of error, {about}</h2>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        f"<p><small>Bars: the margin now; outlines: {base}. The full width is ± {100 * widest:.2g} %.</small></p>"
    )


def _before(pin: Mapping[str, Any]) -> dict[str, Any] | None:
    found: dict[str, Any] | None = pin["before"]["finished" if pin["finished"] else "measured"]
    return found


def _picture(now: Mapping[str, Any] | None, was: Mapping[str, Any] | None, widest: float) -> str:
    """Draw the margin as a share of the group, and that of the baseline around it, on the scale of all groups."""
    bars = [
        f'<rect class="{name}" x="{50 - 50 * part:.2f}" y="{y}" width="{100 * part:.2f}" height="{10 - 2 * y}"/>'
        for name, margin, y in (("now", now, 2.5), ("was", was, 1))
        if margin is not None
        for part in (min(1.0, margin["share"]) / widest,)
    ]
    text = "not published" if now is None else f"± {now['share_text']}"
    lines = '<line x1="50" x2="50" y1="0" y2="10"/>'
    return f'<svg viewBox="0 0 100 10" role="img" aria-label="{escape(text)}">{"".join(bars)}{lines}</svg>'


def _base_name(view: View) -> str:
    return short_name(view.base_name) if view.base is not None else "baseline"


def _totals(view: View) -> str:
    now, was = view.found, view.base
    unit, delta = UNITS[now.config.privacy], now.totals["delta"]
    lines: list[tuple[str, str, Callable[[Figures], Fraction | float]]] = [
        (f"{unit}, one person added or removed (unbounded)", "unbounded", lambda f: f.loss.unbounded),
        (f"{unit}, one person’s record changed (bounded)", "bounded", lambda f: f.loss.bounded),
        (f"ε at δ = {delta}, unbounded", "epsilon_text", lambda f: f.totals["epsilon"]),
        (f"ε at δ = {delta}, bounded", "epsilon_bounded_text", lambda f: f.totals["epsilon_bounded"]),
        (f"{unit}, tight accounting", "tight_unbounded", lambda f: Fraction(f.totals["tight_unbounded"])),
    ]
    comparable = was is not None and was.config.privacy == now.config.privacy
    rows = []
    for label, field, value in lines:
        other = escape(was.totals[field]) if was is not None and comparable else "–"
        changed = change(value(now), value(was))["text"] if was is not None and comparable else "–"
        rows.append(f"<tr><td>{escape(label)}</td><td>{now.totals[field]}</td><td>{other}</td><td>{changed}</td></tr>")
    heads = f"<th>Loss</th><th>now</th><th>{escape(_base_name(view))}</th><th>Change</th>"
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _levels(figures: Figures) -> str:
    published = [name for name in figures.config.budgets if any(key[0] == name for key in figures.rows)]
    rows = "".join(_row(figures, name) for name in published)
    heads = "".join(f"<th>{escape(level.label)}</th>" for level in figures.config.catalog.levels)
    head = f"<tr><th>Table</th><th>τ</th>{heads}<th>Share</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def _row(figures: Figures, name: str) -> str:
    cells = []
    for level in figures.config.catalog.levels:
        if (name, level.key) in figures.rows:
            row = figures.row((name, level.key))
            cells.append(f"<td>{row['moe_text']}<small>{row['budget']}</small></td>")
        else:
            cells.append("<td>–</td>")
    tabulation = figures.config.catalog.tabulation(name)
    tau = figures.config.tau_of(tabulation)
    label = f"{escape(tabulation_label(figures.config.catalog, tabulation))} <i>{escape(name)}</i>"
    share = figures.totals_by_tabulation[name]
    return f"<tr><td>{label}</td><td>{tau or '–'}</td>{''.join(cells)}<td>{100 * share:.1f} %</td></tr>"


def _person(figures: Figures) -> str:
    sentences = []
    for risk in person(figures.loss, figures.delta):
        sentences.append(
            f"An attacker who knows every other record, and starts at 50:50 on {risk['question']}, guesses right at "
            f"most about {risk['guesses_text']} of the time (a coin flip: 50 %)."
        )
    return f"<p>{' '.join(sentences)}</p>"


def _truncation(figures: Figures, shares: Truncation) -> str:
    return "; ".join(
        f"{escape(row['tabulation'])}: τ = {row['tau']} drops {escape(row['text'])}"
        for row in figures.truncation(shares)
    )


def _style() -> str:
    """Return the style of the sheet. The page shows the same sheet before it is printed, so it shares the file."""
    return files("phsafe.explorer").joinpath("static/summary.css").read_text(encoding="utf-8")
