"""Statistical postprocessing: from noisy measurements to finished tables with 90 % intervals.

Nothing in here can see the data; it needs a release and nothing else.
"""

from phsafe.estimation.result import Estimates, Method
from phsafe.estimation.run import estimate, estimate_frames

__all__ = ["Estimates", "Method", "estimate", "estimate_frames"]
