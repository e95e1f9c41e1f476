"""Finished margins for the page, computed in the background and cached, so that no answer waits long for them."""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from phsafe.configs.config import Config
from phsafe.explorer.page_requests import Key
from phsafe.explorer.pinned_groups import PinnedGroup

#: Margins after joint estimation are known exactly for Gaussian noise alone.
NOT_UNDER_PURE_DP = "margins after joint estimation are known for zCDP only"
#: How many results are kept or waited for; an older one that hasn't begun is dropped.
MOST = 256
#: The groups of a request, by what their margins depend on.
PinKey = tuple[str, tuple[float | None, float | None]]


@dataclass(frozen=True)
class FinishedFigures:
    """Margins after joint estimation: of a basis cell of every level, and of groups.

    An average has two: its own, and that of the number it is divided by.
    """

    levels: Mapping[Key, float]
    groups: Mapping[str, tuple[float, ...]]


class FinishedWork:
    """A cache of finished margins with one background thread. It knows configs and groups only, no user."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="finished")
        self._lock = threading.Lock()
        self._work: OrderedDict[tuple[Config, tuple[PinKey, ...]], Future[FinishedFigures]] = OrderedDict()

    def ask(self, config: Config, pins: Sequence[PinnedGroup], seconds: float) -> FinishedFigures | None:
        """Begin the margins of a config, wait at most this long, and return them if they are known by then."""
        if config.privacy != "zcdp":
            return None
        key = (config, tuple((pin.id, pin.sizes) for pin in pins))
        with self._lock:
            future = self._work.get(key)
            if future is None or future.cancelled():
                future = self._work[key] = self._pool.submit(finished_figures, config, list(pins))
            self._work.move_to_end(key)
            while len(self._work) > MOST:
                self._work.popitem(last=False)[1].cancel()
        try:
            return future.result(seconds)
        except TimeoutError:
            return None


def finished_figures(config: Config, pins: Sequence[PinnedGroup]) -> FinishedFigures:
    """Return the finished margins of a config, and of those groups that it publishes.

    There are none if budgets differ so much that floats can't represent the fit.
    """
    from scipy.linalg import LinAlgWarning  # noqa: PLC0415

    from phsafe.explorer.finished_margins import basis_terms, finished_model  # noqa: PLC0415  (SciPy loads slowly)
    from phsafe.explorer.solver_groups import CellCombination, combination  # noqa: PLC0415
    from phsafe.privacy_math.margins import gaussian_moe  # noqa: PLC0415

    model, levels = finished_model(config), basis_terms(config)
    groups: dict[str, list[CellCombination]] = {}
    for pin in pins:
        term = combination(config, pin.group) if pin.problem is None else None
        if term is not None:
            per = pin.sums.per
            units = [] if per is None else [CellCombination(term.level, {(per.tabulation, c): 1.0 for c in per.basis})]
            groups[pin.id] = [term, *units]
    terms = [*levels.values(), *(term for of in groups.values() for term in of)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", LinAlgWarning)
            variances = model.variances(model.budgets(config), terms)
    except (LinAlgWarning, ValueError):
        return FinishedFigures({}, {})
    found = iter([gaussian_moe(float(v)) for v in variances])
    of_levels = {key: next(found) for key in levels}
    return FinishedFigures(of_levels, {name: tuple(next(found) for _ in of) for name, of in groups.items()})
