"""Joint fits for the page, computed in the background so that no answer waits for one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from phsafe.configs.config import Config

if TYPE_CHECKING:
    from phsafe.explorer.joint_margins import JointFit

#: Margins after joint estimation are known exactly for Gaussian noise alone.
NOT_UNDER_PURE_DP = "margins after joint estimation are known for zCDP only"
#: How many fits are kept or waited for; an older one that hasn't begun is dropped.
MOST = 64


class FinishedWork:
    """A cache of joint fits with one background thread. It knows configs only, no user."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="joint-fit")
        self._lock = threading.Lock()
        self._work: OrderedDict[Config, Future[JointFit]] = OrderedDict()

    def peek(self, config: Config) -> JointFit | None:
        """Return the fit of a config if it is known already."""
        with self._lock:
            future = self._work.get(config)
        return future.result() if future is not None and future.done() and not future.cancelled() else None

    def ask(self, config: Config, seconds: float = 0.0) -> JointFit | None:
        """Begin the fit of a config, wait for it at most this long, and return it if it is known by then."""
        with self._lock:
            future = self._work.get(config)
            if future is None or future.cancelled():
                future = self._work[config] = self._pool.submit(_fit, config)
            self._work.move_to_end(config)
            while len(self._work) > MOST:
                self._work.popitem(last=False)[1].cancel()
        try:
            return future.result(seconds)
        except TimeoutError:
            return None


def _fit(config: Config) -> JointFit:
    from phsafe.explorer.joint_margins import joint_fit  # noqa: PLC0415  (SciPy is slow to load)

    return joint_fit(config)
