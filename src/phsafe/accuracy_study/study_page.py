"""The report page of an accuracy study: self-contained, for light and dark screens, phones and paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from phsafe.accuracy_study import study_plots, study_sections
from phsafe.display.html import Html, el, printable
from phsafe.model.schema import STATES

if TYPE_CHECKING:
    from phsafe.accuracy_study.study import Accuracy

STYLE = """
:root { color-scheme: light dark; --ground: #f2f4f8; --card: #fff; --line: #d9dfe9; --text: #15202e; --muted: #566277;
--bad: #b3261e; --good: #1a7440; font: 15px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif }
@media screen and (prefers-color-scheme: dark) { :root { --ground: #0f1319; --card: #181e27; --line: #313c4b;
--text: #e7ecf3; --muted: #9fadc0; --bad: #ff9088; --good: #63d593 } }
* { box-sizing: border-box } body { margin: 0; background: var(--ground); color: var(--text) }
main { max-width: 1120px; margin: 0 auto; padding: 24px 16px 60px }
h1 { font-size: 26px; line-height: 1.2; margin: 0 } h2 { font-size: 18px; margin: 0 0 4px }
p { margin: 4px 0 10px } .muted { color: var(--muted) } .good { color: var(--good) } .wrong { color: var(--bad) }
section, .facts div { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 14px 18px }
section { margin-top: 16px } .facts b { display: block; font-size: 22px; line-height: 1.25 }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(210px, 1fr)); gap: 12px; margin-top: 16px }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(215px, 1fr)); gap: 8px 12px }
.panels svg { width: 100%; height: auto; display: block } .legend { margin-bottom: 8px } .scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: 13.5px }
.strip { width: 120px; height: 16px; vertical-align: -3px }
caption { text-align: left; font-weight: 600; color: var(--muted); padding: 10px 0 4px }
th, td { padding: 3px 12px 3px 0; text-align: left; font-weight: 400; border-bottom: 1px solid var(--line);
white-space: nowrap }
thead th { color: var(--muted); font-weight: 600; vertical-align: bottom; white-space: normal }
.num { text-align: right; font-variant-numeric: tabular-nums } .num:last-child { padding-right: 0 }
@page { size: A4 landscape; margin: 12mm } @media print { body { background: #fff } main { max-width: none; padding: 0 }
tr, .panels svg { break-inside: avoid } h2 { break-after: avoid } .scroll { overflow: visible }
table { font-size: 9.5px } th, td { padding: 1px 4px } }
"""


def page(accuracy: Accuracy) -> str:
    """The page as HTML; text that comes from outside is escaped."""
    config = accuracy.config
    where = "50 states and DC" if len(config.states) == 51 else ", ".join(STATES[s] for s in config.states)
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    lead = (
        f"{accuracy.trials:,} releases of public data, simulated in memory: {printable(accuracy.source)}; {where}; "
        f"sensitivity {config.sensitivity}; made {made} by phsafe accuracy. This page shows exact errors, and no "
        "ledger was charged; both are acceptable for public data only."
    )
    content = el(
        "main",
        el("h1", "Accuracy study"),
        el("p", lead, class_="muted"),
        el("p", empty_regions_warning(accuracy.empty_regions), class_="wrong") if accuracy.empty_regions else None,
        el("div", *_facts(accuracy), class_="facts"),
        *(Html(section(accuracy)) for section in study_sections.SECTIONS),
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">{el("title", f"Accuracy: {printable(accuracy.source)}")}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>{STYLE}{study_plots.STYLE}</style></head><body>{content}</body></html>
"""


def empty_regions_warning(regions: Sequence[str]) -> str:
    """A warning about regions of the config in which the data have no people."""
    shown = ", ".join(STATES.get(region, region) for region in regions[:3])
    more = f" and {len(regions) - 3} more" if len(regions) > 3 else ""
    return (
        f"The data have no people in {shown}{more}, so errors there are those of empty tables. "
        "In state_filter, list only states that the data cover."
    )


def _fact(figure: str, text: str, class_: str | None = None) -> Html:
    return el("div", el("b", figure, class_=class_), el("span", text, class_="muted"))


def _facts(accuracy: Accuracy) -> Iterable[Html]:
    rows, pooled = accuracy.tabulations, accuracy.tests[0]
    failed_rows = len(rows) - rows["AS_STATED"].sum()
    if accuracy.as_stated:
        yield _fact(
            "As stated", f"the 90 % MOE of all {len(rows)} rows is within sampling error of the expected one", "good"
        )
    else:
        failed_tests = sum(not test.as_stated for test in accuracy.tests)
        yield _fact("Not as stated", f"{failed_rows} of {len(rows)} rows and {failed_tests} pooled tests fail", "wrong")
    yield _fact(
        f"{100 * pooled.within:.2f} %",
        f"of {pooled.counts:,} noisy counts are within their exact 90 % MOE; expected: {100 * pooled.expected:.2f} %",
    )
    if accuracy.estimated:
        for (method,), lines in (
            accuracy.base(accuracy.lines).drop_nulls("COVERAGE").group_by("METHOD", maintain_order=True)
        ):
            share = 100 * lines["COVERAGE"].to_numpy().mean()
            yield _fact(f"{share:.1f} %", f"of 90 % intervals contain the true value, {method} method")
