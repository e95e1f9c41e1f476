"""What a request of the page refers to: a scenario, the baseline to compare it with, and the pinned groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.explorer import plain_language
from phsafe.explorer.figures import Figures, figures
from phsafe.explorer.finished_work import NOT_UNDER_PURE_DP, FinishedWork
from phsafe.explorer.group_margins import Known, pin_answers
from phsafe.explorer.pinned_groups import PinnedGroup, read_pins
from phsafe.explorer.scenario import Problems, Scenario
from phsafe.model.levels import in_puerto_rico
from phsafe.model.spec import Catalog
from phsafe.model.tables import CENSUS_2020

NAME_2020 = "2020 parameters"
#: How many groups the sentence about a scenario names.
IN_SENTENCE = 2
#: How long a response waits for joint estimation before it reports that it is under way, in seconds.
PATIENCE = 0.3
FINISHED = FinishedWork()


def scenario_2020(puerto_rico: bool = False) -> Scenario:
    """Return the scenario with the parameters of the 2020 run."""
    document = parameters_2020("pr" if puerto_rico else "us")
    return Scenario.from_config(Config.load(document), NAME_2020 + (", Puerto Rico" if puerto_rico else ""))


@dataclass(frozen=True)
class View:
    """A valid scenario with its figures, those of the baseline (None without a valid one), and the pinned groups."""

    scenario: Scenario
    found: Figures
    base: Figures | None
    base_name: str
    base_problems: Problems
    pins: list[PinnedGroup]

    @classmethod
    def read(cls, body: Mapping[str, Any], catalog: Catalog) -> tuple[View | None, Problems]:
        """Read a request, or return what is wrong with each field of its scenario.

        Raises:
            ConfigError: The scenario, the baseline or a pinned group has the wrong structure.
        """
        scenario = Scenario.from_dict(body.get("scenario"), catalog)
        pins = read_pins(body.get("pins"), catalog)
        baseline = _baseline(body.get("baseline"), scenario, catalog)
        found, problems = figures(scenario)
        if found is None:
            return None, problems
        base, base_problems = (None, {}) if baseline is None else figures(baseline)
        return cls(scenario, found, base, "" if baseline is None else baseline.name, base_problems, pins), {}

    def finished_state(self) -> str:
        """Whether margins after joint estimation are known: "done", "under way", or "unavailable"."""
        if self.found.config.privacy != "zcdp":
            return "unavailable"
        known = [after for figures, after in self.known(0.0) if figures.config.privacy == "zcdp"]
        return "done" if all(after is not None for after in known) else "under way"

    def known(self, seconds: float) -> list[Known]:
        """Return the figures of the scenario and the baseline with their finished margins, if known in time."""
        shown = [figures for figures in (self.found, self.base) if figures is not None]
        return [(figures, FINISHED.ask(figures.config, self.pins, seconds)) for figures in shown]

    def pin_answers(self, seconds: float = PATIENCE) -> list[dict[str, Any]]:
        """Return the pinned groups with their margins, after joint estimation too if those are known in time."""
        now, *before = self.known(seconds)
        return pin_answers(self.pins, now, before[0] if before else None)

    def sentence(self, pins: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the scenario in a few sentences: its cost, the first published groups, and the risk of a person."""
        ratios: tuple[float | None, float | None] = (None, None)
        if self.base is not None and self.base.config.privacy == self.found.config.privacy:
            now, was = self.found.loss, self.base.loss
            ratios = (float(now.unbounded / was.unbounded), float(now.bounded / was.bounded))
        name = "" if self.base is None else short_name(self.base_name)
        cost = plain_language.cost_sentence(self.found.loss, name, *ratios)
        shown = [(pin["label"], pin["finished"] or pin["measured"]) for pin in pins]
        groups = [f"{label}: {margin['sentence']}." for label, margin in shown if margin is not None][:IN_SENTENCE]
        if missing := sum(not pin["published"] for pin in pins):
            groups.append(f"Not published: {missing} of the {len(pins)} groups that you care about.")
        person = plain_language.person_sentence(self.found.loss)
        return {"cost": cost, "groups": groups, "person": person, "text": " ".join((cost, *groups, person))}


def short_name(name: str) -> str:
    """Return the name of a baseline for a sentence: the 2020 parameters are called 2020."""
    return name.replace(NAME_2020, "2020") if name.startswith(NAME_2020) else f"“{name}”"


def finished_note(view: View) -> str:
    """Say why there are no margins after joint estimation; empty if there are."""
    return NOT_UNDER_PURE_DP if view.finished_state() == "unavailable" else ""


def _baseline(document: object, scenario: Scenario, catalog: Catalog) -> Scenario | None:
    if document is not None:
        return Scenario.from_dict(document, catalog)
    return scenario_2020(in_puerto_rico(scenario.states)) if catalog == CENSUS_2020 else None
