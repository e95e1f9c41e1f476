"""Statistical postprocessing: from noisy measurements to finished tables with 90 % intervals.

Nothing in here can see the data; it needs a release and nothing else.
"""

from phsafe.estimation.run import Estimates, Method, estimate, estimate_frames

__all__ = ["Estimates", "Method", "estimate", "estimate_frames"]
