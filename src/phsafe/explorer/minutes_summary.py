"""A one-page summary of a scenario for meeting minutes: self-contained HTML that prints on one sheet."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from phsafe.explorer.figures import Figures
from phsafe.explorer.plain_language import person
from phsafe.explorer.public_tables import Truncation
from phsafe.model.schema import STATES
from phsafe.privacy.budgets import MODE_NOTES, UNITS

STYLE = """
@page { size: A4; margin: 12mm } body { font: 12px/1.4 system-ui, sans-serif; color: #16202e; max-width: 900px;
margin: 2em auto; padding: 0 1em } h1 { font-size: 20px; margin: 0 } h2 { font-size: 14px; margin: 1.2em 0 .3em }
p { margin: .3em 0 } table { border-collapse: collapse; width: 100% } th, td { text-align: right; padding: 1px 6px;
border-bottom: 1px solid #d8dee8; font-variant-numeric: tabular-nums } th { font-weight: 600; background: #eef2f7 }
th:first-child, td:first-child { text-align: left } .big { font-size: 16px; font-weight: 600 } small { color: #55617a }
td small { display: block; line-height: 1.1 } @media print { body { margin: 0; padding: 0; font-size: 10px } }
"""


def summary(name: str, figures: Figures, shares: Truncation) -> str:
    """Return the summary as HTML. All text from a user or a catalog is escaped."""
    config, unit = figures.config, UNITS[figures.config.privacy]
    totals = figures.totals
    where = "50 states and DC" if len(config.states) == 51 else ", ".join(STATES[s] for s in config.states)
    rows = "".join(_row(figures, name_) for name_ in config.budgets if _published(figures, name_))
    heads = "".join(f"<th>{escape(level.label)}</th>" for level in config.catalog.levels)
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(name)}: privacy and accuracy</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>{STYLE}</style></head><body>
<h1>{escape(name)}</h1>
<p><small>PHSafe parameters, {escape(where)}; generated {now}. No confidential data were used.</small></p>
<h2>Privacy loss of the whole run</h2>
<p class="big">{unit} = {totals["unbounded"]} unbounded (one person added or removed),
{unit} = {totals["bounded"]} bounded (one person’s record changed)</p>
<p>At δ = {escape(totals["delta"])}: ε = {totals["epsilon_text"]} unbounded, {totals["epsilon_bounded_text"]} bounded.
Sensitivity: {escape(MODE_NOTES[config.sensitivity])}. The same noise under tight accounting:
{totals["tight_unbounded"]} unbounded, {totals["tight_bounded"]} bounded.</p>
{_person(figures)}
<h2>90 % margin of error and budget {unit} of a basis cell</h2>
<table><thead><tr><th>Tabulation</th><th>τ</th>{heads}<th>Share</th></tr></thead><tbody>{rows}</tbody></table>
<p><small>Margin of error by the paper’s formula, 1.645σ; under it, the stated budget. “–”: not published.</small></p>
<h2>People dropped by truncation</h2>
<p>{_truncation(figures, shares)}</p>
<p><small>Source of the shares: {escape(shares.source)}.</small></p>
</body></html>
"""


def _published(figures: Figures, name: str) -> bool:
    return any(key[0] == name for key in figures.rows)


def _row(figures: Figures, name: str) -> str:
    cells = []
    for level in figures.config.catalog.levels:
        if (name, level.key) in figures.rows:
            row = figures.row((name, level.key))
            cells.append(f"<td>{row['moe_text']}<small>{row['budget']}</small></td>")
        else:
            cells.append("<td>–</td>")
    tau = figures.config.tau_of(figures.config.catalog.tabulation(name))
    share = figures.totals_by_tabulation[name]
    return f"<tr><td>{escape(name)}</td><td>{tau or '–'}</td>{''.join(cells)}<td>{100 * share:.1f} %</td></tr>"


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
