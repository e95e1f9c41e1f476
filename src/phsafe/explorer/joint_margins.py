"""Margins of error after joint estimation by tabulation and level, and for a comparison of modes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache

from phsafe.configs.config import Config
from phsafe.configs.line_sums import CellSum
from phsafe.errors import PHSafeError
from phsafe.estimation.densities import Array
from phsafe.explorer.finished_margins import FinishedModel, basis_terms, finished_model
from phsafe.explorer.page_requests import Key
from phsafe.explorer.solver_groups import CellCombination
from phsafe.privacy.budgets import Budget
from phsafe.privacy.mode_comparison import Comparison, ModeGain, SolvedMargins
from phsafe.privacy_math.margins import gaussian_moe

#: How many fits are kept.
KEPT_FITS = 32


def with_finished_margins(comparison: Comparison | Budget) -> Comparison:
    """Add the margins after joint estimation to a comparison of modes.

    Raises:
        PHSafeError: It is the budget of a single mode, or under pure DP, for which they are not known exactly.
    """
    if not isinstance(comparison, Comparison):
        raise PHSafeError("--finished: expected --compare too, which compares the sensitivity modes")
    if comparison.published.definition != "zcdp":
        raise PHSafeError("--finished: margins after joint estimation are known for zcdp only; leave out --finished")
    finished = {str(b.config.sensitivity): joint_moe(b.config) for b in comparison.budgets}
    return replace(comparison, finished=finished, solved=_solved(comparison))


def _solved(comparison: Comparison) -> SolvedMargins:
    """Solve for finished tables in the structured mode: at the published margins, and at the published losses."""
    from phsafe.explorer.solver import solve  # noqa: PLC0415  (it needs margins itself)

    published = next(b for b in comparison.budgets if b.config.sensitivity == "published")
    moe = {(row.event.tabulation, row.event.level): row.moe for row in published.rows}
    targets: dict[str, dict[str, float]] = {}
    for (name, level), margin in moe.items():
        targets.setdefault(name, {})[level] = margin
    mode = {"sensitivity": "structured"}
    met = solve(published.config, mode | {"moe": targets}, aim="finished")
    assert met.preview is not None
    found, ratios = {}, {}
    for neighbours, loss in (("unbounded", published.loss.unbounded), ("bounded", published.loss.bounded)):
        total = Decimal(math.floor(loss * 10**6)).scaleb(-6)
        request = mode | {"total": total, "neighbours": neighbours, "worse": 0}
        found[neighbours] = joint_moe(solve(published.config, request, aim="finished").config)
        ratios[neighbours] = [found[neighbours][key] / margin for key, margin in moe.items()]
    spans = {name: (min(values), max(values)) for name, values in ratios.items()}
    gain = ModeGain(met.preview.loss_after, spans["unbounded"], spans["bounded"])
    return SolvedMargins(gain, found["unbounded"])


@dataclass(frozen=True)
class JointFit:
    """The least-squares fit of a config's measurements. The first group of each level represents it."""

    model: FinishedModel
    budgets: Array

    def variances(self, parts: Sequence[tuple[CellSum, str]]) -> list[float]:
        """Return the variance after joint estimation of sums of basis cells, each with its level."""
        terms = [CellCombination(level, {(p.tabulation, cell): 1.0 for cell in p.basis}) for p, level in parts]
        return [float(v) for v in self.model.variances(self.budgets, terms)]

    def difference(self, count: CellSum, per: CellSum, ratio: float, level: str) -> float:
        """Return the variance of a count minus `ratio` times another, after joint estimation."""
        cells = {(count.tabulation, cell): 1.0 for cell in count.basis}
        both = CellCombination(level, cells | {(per.tabulation, cell): -ratio for cell in per.basis})
        return float(self.model.variances(self.budgets, [both])[0])


@lru_cache(maxsize=KEPT_FITS)
def joint_fit(config: Config) -> JointFit:
    """Return the fit of all measurements of a config, by what the variances alone determine."""
    model = finished_model(config)
    return JointFit(model, model.budgets(config))


def joint_moe(config: Config) -> dict[Key, float]:
    """Return the 90 % MOE of a basis cell after joint estimation, by tabulation and level; of the noisiest block."""
    fitted, terms = joint_fit(config), basis_terms(config)
    found = fitted.model.variances(fitted.budgets, list(terms.values()))
    return {key: gaussian_moe(float(variance)) for key, variance in zip(terms, found, strict=True)}
