"""Diagnostics: how well the measurements of a release agree, and what the constraints changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from phsafe.estimation.consistent_points import Points
from phsafe.estimation.densities import Array
from phsafe.estimation.fit import Fit, noise_test, removed_shares
from phsafe.estimation.measurement_vector import Measured

#: A p-value this close to 0 or 1 suggests that the noise is not what the release states.
SUSPICIOUS = 0.001
#: The number of residuals listed, and the least share of noise removed for a residual to say something.
LISTED, TESTABLE = 10, 0.001


def diagnostics(measured: Measured, fit: Fit, points: Points | None, left_out: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of `diagnostics.json`: the noise test, cells that were moved, and tables left out.

    Args:
        measured: The noisy measurements.
        fit: Their least-squares fit.
        points: The consistent counts; None for the independent method.
        left_out: Table name → reason why it could not be estimated.
    """
    removed = removed_shares(fit.projection)
    expected, spread, p_value = noise_test(fit, measured, removed)
    gaps = measured.counts - fit.estimates
    residuals = gaps / np.sqrt(measured.variances)
    shown = points.shown if points is not None else np.ones(len(measured.counts), bool)
    found: dict[str, Any] = {
        "noise_test": {
            "about": "residuals of the noisy counts from the least-squares fit over all identities",
            "sum_of_squares": round(fit.squares, 3),
            "degrees_of_freedom": fit.projection.freedom,
            "expected": expected,
            "standard_deviation": round(spread, 3),
            "p_value": round(p_value, 6),
            "verdict": _verdict(fit, expected, p_value),
        },
        "largest_residuals": _largest(measured, gaps, removed),
        "measurements": {
            f"{name} {key}": {
                "cells": int(block.positions().size),
                "variance": round(float(measured.variances[block.start]), 6),
                "mean_square_residual": round(float(np.mean(np.square(residuals[block.positions()]))), 6),
                "share_of_noise_test": round(
                    float(removed[block.positions()].sum() / max(fit.projection.freedom, 1)), 6
                ),
            }
            for (name, key), block in measured.blocks.items()
        },
        "negative_noisy_counts": int(np.sum(measured.counts < 0)),
        "left_out": dict(left_out),
    }
    if points is not None:
        found["counts"] = {
            "cells": int(shown.sum()),
            "moved_by_constraints": points.moved,
            "smaller_universes_within_larger": points.nested,
        }
    return found


def _largest(measured: Measured, gaps: Array, removed: Array) -> dict[str, Any]:
    """The noisy counts furthest from the fit, in standard deviations of their residuals.

    The noise test adds up thousands of residuals and doesn't notice one count moved by a few standard deviations; this
    list does. A count of which least squares removes no noise has no residual to test.
    """
    testable = removed > TESTABLE
    standard = np.zeros(len(gaps))
    standard[testable] = gaps[testable] / np.sqrt(removed[testable] * measured.variances[testable])
    number = int(testable.sum())
    if not number:
        return {"about": "no noisy count can be compared with others", "expected_largest": 0.0, "counts": []}
    listed = []
    for position in np.argsort(-np.abs(standard), kind="stable")[: min(LISTED, number)]:
        block = next(b for b in measured.blocks.values() if 0 <= position - b.start < b.positions().size)
        row, column = divmod(int(position - block.start), len(block.tabulation.cells))
        region, iteration = block.groups[row]
        listed.append(
            {
                "tabulation": block.tabulation.name,
                "level": block.level.key,
                "region": region,
                "iteration": iteration,
                "cell": list(block.tabulation.cells)[column],
                "standardised_residual": round(float(standard[position]), 3),
            }
        )
    return {
        "about": f"residuals in standard deviations, of {number} noisy counts that others can be compared with",
        "expected_largest": round(float(special.ndtri(1 - 0.25 / number)), 3),
        "counts": listed,
    }


def _verdict(fit: Fit, expected: float, p_value: float) -> str:
    if fit.projection.freedom == 0:
        return "no identities among these measurements: nothing to test"
    if SUSPICIOUS <= p_value <= 1 - SUSPICIOUS:
        return "the measurements agree as well as their stated noise implies"
    compared = "better" if fit.squares < expected else "worse"
    return f"the measurements agree {compared} than their stated noise implies; check whether they were changed"
