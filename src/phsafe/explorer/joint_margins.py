"""Margins of error after joint estimation by tabulation and level, and for a comparison of modes."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.explorer.finished_margins import basis_terms, finished_model
from phsafe.explorer.page_requests import Key
from phsafe.privacy.budgets import Budget
from phsafe.privacy.mode_comparison import Comparison, ModeGain, SolvedMargins
from phsafe.privacy_math.margins import gaussian_moe


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


def joint_moe(config: Config) -> dict[Key, float]:
    """Return the 90 % MOE of a basis cell after joint estimation, by tabulation and level; of the noisiest block."""
    model, terms = finished_model(config), basis_terms(config)
    found = model.variances(model.budgets(config), list(terms.values()))
    return {key: gaussian_moe(float(variance)) for key, variance in zip(terms, found, strict=True)}
