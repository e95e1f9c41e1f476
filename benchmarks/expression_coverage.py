"""Coverage of the 90 % intervals of sums, differences and ratios of cells, over many releases of five states.

    python benchmarks/expression_coverage.py WORK [--draws 2000] [--seed 5] [--everybody] [--small]

Exact counts are computed once and kept in WORK. Prints the coverage of each expression, in percent: of truncated
values, or with --everybody of the untruncated truth (slower). With --small, the expressions are shares and averages of
groups that are smaller than the noise or slightly larger; for these it also prints the share of releases in which an
interval is refused, the mean length of the intervals, and the largest ratio of a standard error to that length.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import estimation_errors
import numpy as np
from scipy import sparse

from phsafe.configs.config import Config
from phsafe.configs.names import find_region
from phsafe.configs.parameters import parameters_2020
from phsafe.errors import PHSafeError
from phsafe.estimation.averages import median
from phsafe.estimation.beyond_threshold import everybody
from phsafe.estimation.combinations import estimate_expression
from phsafe.estimation.estimate_release import joint
from phsafe.estimation.everybody_ties import tied
from phsafe.estimation.expressions import CellName, parse
from phsafe.estimation.fit import Fit
from phsafe.estimation.joint_model import Joint
from phsafe.estimation.named_cells import Named, level_of, positions_of, published_average
from phsafe.synthetic import synth

STATES, HOUSEHOLDS = ("06", "15", "44", "48", "56"), 200_000
EXPRESSIONS = """
PH3[CA, 1] + PH3[TX, 1]; PH3[WY, 2] + PH3[HI, 2]; PH7[CA, A, 1] - PH7[TX, A, 1]; PH7[CA, H, 1] - PH7[CA, I, 1];
PH2[CA, 2] - PH2[TX, 2]; PH2[CA, 2] / PH2[CA, 1]; PH2[TX, 11] / PH2[TX, 1]; PH7[CA, 4] / PH7[CA, 1];
PH7[TX, B, 4] / PH7[TX, B, 1]; PH4[CA, 1] / PH7[CA, 1]; PH3[CA, A, 1] / PH3[CA, 1]; PH6[CA, 2] - PH6[CA, 17];
PH6[US, 2] / PH6[US, 1]; PH7[WY, 1] - PH7[RI, 1]; PH1[CA, 1] - PH1[TX, 1]; PH1[CA, A, 1] - PH1[CA, B, 1];
PH8[CA, 2] / PH8[CA, 3]; PH5[CA, 1] - PH1[CA, 1]; PH3[CA, 1] - PH6[CA, 1];
PH4[CA, B, 1] + PH4[TX, B, 1] + PH4[CA, D, 1]
"""
#: Shares and averages of groups of a few dozen people up to a few times the noise.
SMALL = """
PH7[WY, D, 4] / PH7[WY, D, 1]; PH7[WY, F, 2] / PH7[WY, F, 1]; PH7[WY, G, 3] / PH7[WY, G, 1];
PH7[RI, E, 2] / PH7[RI, E, 1]; PH7[RI, D, 2] / (PH7[RI, D, 2] + PH7[RI, D, 3] + PH7[RI, D, 4]);
1 - PH7[HI, B, 4] / PH7[HI, B, 1]; PH7[HI, H, 2] / PH7[HI, H, 1]; PH7[RI, B, 3] / PH7[RI, B, 1];
PH3[WY, D, 1] / PH3[WY, 1]; PH3[WY, F, 2] / PH3[WY, F, 1]; PH3[RI, G, 2] / PH3[RI, G, 1];
PH4[WY, F, 1] / PH7[WY, F, 1]; PH4[WY, G, 1] / PH7[WY, G, 1]; PH7[WY, I, 1] / PH7[WY, 1];
PH7[WY, F, 2] / PH7[WY, F, 1] - PH7[WY, G, 2] / PH7[WY, G, 1]; PH7[WY, F, 1] / PH7[WY, G, 1];
PH1[WY, D, 1] - PH1[RI, D, 1]; PH1[WY, F, 2] - PH1[WY, G, 2]; PH1[HI, B, 3] / PH1[WY, B, 3];
PH8[RI, D, 2] - PH8[RI, D, 3]; PH5[WY, D, 1] - PH1[WY, D, 1]
"""


@dataclass(frozen=True)
class Remembered(Fit):
    """A fit that computes each covariance once: only its estimates differ between releases."""

    known: dict[tuple[str, bytes, bytes], np.ndarray]

    def _once(self, what: str, sums: sparse.csr_array) -> np.ndarray:
        key = (what, sums.indices.tobytes(), sums.data.tobytes() + sums.indptr.tobytes())
        if key not in self.known:
            self.known[key] = getattr(super(), what)(sums)
        return self.known[key]

    def variance(self, sums: sparse.csr_array) -> np.ndarray:
        """The variance of linear combinations of the estimates, one per row."""
        return self._once("variance", sums)

    def covariance(self, sums: sparse.csr_array) -> np.ndarray:
        """The covariance matrix of a few linear combinations of the estimates, one per row."""
        return self._once("covariance", sums)


def arguments_given() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=5, help="of the noise")
    parser.add_argument("--everybody", action="store_true")
    parser.add_argument("--small", action="store_true", help="shares of small groups")
    return parser.parse_args()


def main() -> None:
    """Simulate releases and print the coverage of every expression."""
    arguments = arguments_given()
    config = Config.load(parameters_2020("us-measured") | {"state_filter": list(STATES)})
    arguments.work.mkdir(exist_ok=True)
    data = arguments.work / "five"
    if not data.exists():
        synth(data, HOUSEHOLDS, STATES, seed=3)
    counts = estimation_errors.exact(config, data, arguments.work / "five.pickle")
    world = estimation_errors.World.of(config, counts)
    goal = world.everyone if arguments.everybody else world.kept
    chosen = SMALL if arguments.small else EXPRESSIONS
    terms = {text: parse(text) for text in map(str.strip, chosen.split(";"))}
    results: dict[str, list[tuple[bool, float, float]]] = {text: [] for text in terms}

    def named(model: Joint, cell: CellName, values: np.ndarray) -> Named:
        table = next(t for t in config.catalog.tables if t.name == cell.table)
        kind, region = find_region(config, cell.region)
        level = level_of(config, kind, cell.iteration)
        found = Named(table, level, (region, cell.iteration), int(cell.line), (0.0, 0.0, 0.0, 0.0))
        if values is not goal and table.average is not None:
            value = float(median(published_average(model, found).quantiles))
        else:
            sums = [float(values[places].sum()) for places in positions_of(model, found)]
            value = sums[0] if len(sums) == 1 else sums[0] / sums[1]
        return replace(found, published=(value, 0.0, 0.0, 0.0))

    known: dict[tuple[str, bytes, bytes], np.ndarray] = {}
    for drawn, fit in world.draws(arguments.draws, arguments.seed):
        cells = tied(drawn, everybody(drawn, fit)) if arguments.everybody else Remembered(**vars(fit), known=known)
        if arguments.small:  # Published counts differ from those of the fit.
            model = joint(drawn, cells)
            published = np.where(model.points.shown, model.points.counts, cells.estimates)
        else:
            model = Joint(drawn, cells, world.lines, np.empty(0), None, truncated=not arguments.everybody)
            published = cells.estimates
        for text, term in terms.items():
            shown = {cell: named(model, cell, published) for cell in term.cells()}
            try:
                found = estimate_expression(model, text, term, shown)
            except PHSafeError:  # It has no interval.
                continue
            true = {cell: np.float64(named(model, cell, goal).published[0]) for cell in term.cells()}
            truth = term.evaluate(true.__getitem__, np.float64)
            results[text].append(
                (bool(found.lower <= truth <= found.upper), found.upper - found.lower, found.std_error)
            )
    for text, of_text in results.items():
        show(text, of_text, arguments)


def show(text: str, results: list[tuple[bool, float, float]], arguments: argparse.Namespace) -> None:
    """Print the coverage of an expression, from whether its intervals contain the truth, their lengths and errors."""
    hits, lengths, errors = np.array(results).T
    refused = 100 - 100 * len(hits) / arguments.draws
    details = f"{refused:6.1f} {lengths.mean():8.3f} {(errors / lengths).max():8.2f}" if arguments.small else ""
    print(f"{100 * hits.mean():5.1f}{details}  {text}")


if __name__ == "__main__":
    main()
