"""The page's API: each function takes the body of a request and returns the JSON document to answer with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phsafe.errors import ConfigError
from phsafe.explorer import plain_language, public_tables
from phsafe.explorer.error_curve import error_curve
from phsafe.explorer.figures import Figures, figures
from phsafe.explorer.group_search import search
from phsafe.explorer.input_warnings import warnings
from phsafe.explorer.minutes_summary import config_file, summary
from phsafe.explorer.page_requests import Key
from phsafe.explorer.pinned_groups import PinnedGroup, defaults, tabulation_label
from phsafe.explorer.public_tables import Truncation
from phsafe.explorer.scenario import Scenario
from phsafe.explorer.scenario_changes import add_changes, change
from phsafe.explorer.scenario_files import MOST_SCENARIOS, ScenarioFile, read_scenarios
from phsafe.explorer.scenario_view import (
    FINISHED,
    NAME_2020,
    PATIENCE,
    View,
    finished_note,
    scenario_2020,
    short_name,
)
from phsafe.model.levels import in_puerto_rico
from phsafe.model.schema import US_STATES
from phsafe.model.spec import Catalog, Table
from phsafe.model.tables import CENSUS_2020
from phsafe.system.optional_packages import require


def start(catalog: Catalog, first: ScenarioFile, shares: Truncation) -> dict[str, Any]:
    """Return what the page loads first: names and titles from the catalog, initial scenarios, and public tables."""
    puerto_rico = in_puerto_rico(first.scenarios[0].states)
    pins = defaults(catalog, puerto_rico=puerto_rico) if first.pins is None else first.pins
    for scenario in first.scenarios:
        found, _ = figures(scenario)
        if found is not None:
            FINISHED.ask(found.config, pins, 0.0)  # SciPy loads while the page does.
    standard = [scenario_2020(), scenario_2020(puerto_rico=True)] if catalog == CENSUS_2020 else []
    return {
        "tabulations": [
            {
                "name": t.name,
                "persons": t.is_truncated,
                "optional": t.beyond is not None,
                "table": catalog.table_of(t).name,
                "label": tabulation_label(catalog, t),
                "levels": [level.key for level in catalog.levels_of(t)],
            }
            for t in catalog.tabulations
        ],
        "levels": [
            {
                "key": level.key,
                "geography": level.geography.label,
                "iterations": level.iteration_level.label,
                "label": level.label,
                "puerto_rico": level.geography.puerto_rico,
                "regions": [[code, name] for code, name in level.geography.regions],
                "groups": [[i.code, i.label] for i in level.iteration_level.iterations],
            }
            for level in catalog.levels
        ],
        "tables": [
            {
                "name": t.name,
                "title": t.title,
                "universe": t.universe,
                "average": t.average is not None,
                "lines": [{"number": line.number, "label": line.label, "indent": line.indent} for line in t.shell],
            }
            for t in catalog.tables
        ],
        **first.to_dict(),
        "pins": [pin.to_dict() for pin in pins],
        "pins_pr": [pin.to_dict() for pin in defaults(catalog, puerto_rico=True)],
        "baseline": NAME_2020 if standard else "",
        "compared_with": None if first.baseline is None else first.baseline.to_dict(),
        "standard": [scenario.to_dict() for scenario in standard],
        "truncation": shares.to_dict(),
        "verdicts": {"rough": plain_language.ROUGH, "noise": plain_language.NOISE},
        "universes": public_tables.universes(),
        "groups": {f"{region} {code}": sizes for (region, code), sizes in public_tables.groups().items()},
    }


def evaluate(body: Mapping[str, Any], catalog: Catalog, shares: Truncation) -> dict[str, Any]:
    """Return all numbers of a scenario against the baseline, or what is wrong with each field."""
    view, problems = View.read(body, catalog)
    if view is None:
        return {"problems": problems}
    found, focus = view.found, body.get("focus")
    focus = focus if isinstance(focus, Mapping) else {}
    key, table = _key(focus, found), _table(focus, catalog)
    rows: dict[str, dict[str, Any]] = {}
    for name, level in found.rows:
        rows.setdefault(name, {})[level] = found.row((name, level))
    pins = view.pin_answers()
    answer = {
        "problems": {},
        "rows": rows,
        "derived": found.derived(),
        "totals": found.totals,
        "person": plain_language.person(found.loss, found.delta),
        "truncation": found.truncation(shares),
        "curve": None if key is None else {"tabulation": key[0], "level": key[1], **found.curve(key)},
        "table": found.table(table),
        "baseline": _baseline(view),
        "pins": pins,
        "finished": view.finished_state(),
        "finished_note": finished_note(view),
        "sentence": view.sentence(pins),
        "warnings": warnings(view, shares),
        "error_curve": None if key is None else error_curve(found, key, _focused(focus, view), shares),
    }
    if view.base is not None:
        add_changes(answer, found, view.base, shares)
    return answer


def finished(body: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Return the margins of error after joint estimation, or that they are under way."""
    view, problems = View.read(body, catalog)
    if view is None:
        return {"problems": problems}
    if view.finished_state() == "unavailable":
        return {"problems": {}, "state": "unavailable", "note": finished_note(view)}
    (_, now), *others = view.known(PATIENCE)
    if now is None or any(after is None for figures, after in others if figures.config.privacy == "zcdp"):
        return {"problems": {}, "state": "under way"}
    before = next((after.levels for _, after in others if after is not None), None)
    margins: dict[str, dict[str, Any]] = {}
    for (name, level), moe in now.levels.items():
        was = None if before is None else before.get((name, level))
        margins.setdefault(name, {})[level] = {
            "moe": moe,
            "moe_text": f"{moe:,.2f}",
            "before": None if was is None else {"moe": was, "moe_text": f"{was:,.2f}"},
            "change": None if before is None else change(moe, was),
        }
    pins = view.pin_answers()
    return {"problems": {}, "state": "done", "margins": margins, "pins": pins, "sentence": view.sentence(pins)}


def searched(body: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Return the groups that match what a user typed."""
    words, states = body.get("words", ""), body.get("states")
    if not isinstance(words, str) or not (states is None or isinstance(states, list)):
        raise ConfigError("expected words to search for, and a list of states")
    return search(words, catalog, tuple(map(str, states)) if states else US_STATES)


def compared(body: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Return the numbers of several scenarios, one column for each."""
    documents = body.get("scenarios")
    if not isinstance(documents, list) or not 1 <= len(documents) <= MOST_SCENARIOS:
        raise ConfigError(f"expected 1 to {MOST_SCENARIOS} scenarios")
    columns = []
    for document in documents:
        scenario = Scenario.from_dict(document, catalog)
        view, problems = View.read({"scenario": document, "baseline": documents[0], "pins": body.get("pins")}, catalog)
        column: dict[str, Any] = {"name": scenario.name, "problems": problems}
        if view is not None:
            found, pins = view.found, view.pin_answers()
            column |= {
                "pins": pins,
                "sentence": view.sentence(pins),
                "sensitivity": scenario.sensitivity,
                "privacy": scenario.privacy,
                "totals": found.totals,
                "person": plain_language.person(found.loss, found.delta),
                "tau": found.config.tau,
                "rows": {f"{name} {level}": found.row((name, level)) for name, level in found.rows},
            }
        columns.append(column)
    return {"columns": columns}


def opened(body: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Read scenarios from the text of a scenario file, a shared link or its document, or a config (JSON or TOML)."""
    source, name = body.get("text"), str(body.get("name", "opened"))
    if not isinstance(source, str):
        raise ConfigError("expected the text of a scenario file or a config")
    return read_scenarios(source, name, catalog).to_dict()


def export(form: str, body: Mapping[str, Any], catalog: Catalog, shares: Truncation) -> bytes:
    """Return a scenario as a config, a workbook or a one-page summary."""
    view, _ = View.read(body, catalog)
    if view is None:
        raise ConfigError("some fields are invalid; correct the marked fields first")
    if form == "config":
        return config_file(view.found)
    if form == "workbook":
        require("xlsxwriter")
        from phsafe.explorer.workbook import workbook  # noqa: PLC0415

        return workbook(view.found, view.base, short_name(view.base_name), view.pins, shares)
    if form == "summary":
        return summary(view, shares, body.get("minutes")).encode()
    raise ConfigError("expected an export as config, workbook or summary")


def _focused(focus: Mapping[str, Any], view: View) -> list[PinnedGroup]:
    """The group that the focus names, then the pinned ones."""
    named = focus.get("pin")
    return [*([] if named is None else [PinnedGroup.from_dict(named, view.scenario.catalog)]), *view.pins]


def _baseline(view: View) -> dict[str, Any] | None:
    if view.base is None:
        return {"name": view.base_name, "problems": view.base_problems} if view.base_problems else None
    base = view.base
    person = plain_language.person(base.loss, base.delta)
    return {"name": view.base_name, "problems": {}, "totals": base.totals, "person": person}


def _key(focus: Mapping[str, Any], found: Figures) -> Key | None:
    key = (str(focus.get("tabulation")), str(focus.get("level")))
    return key if key in found.rows else next(iter(found.rows), None)


def _table(focus: Mapping[str, Any], catalog: Catalog) -> Table:
    return next((t for t in catalog.tables if t.name == focus.get("table")), catalog.tables[0])
