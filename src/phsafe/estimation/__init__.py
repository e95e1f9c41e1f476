"""Statistical postprocessing: from noisy measurements to finished tables with 90 % intervals.

Code in this package needs only a release and has no access to the data.
"""

from phsafe.estimation.estimate_release import estimate, estimate_frames
from phsafe.estimation.estimates import Estimates, Method

__all__ = ["Estimates", "Method", "estimate", "estimate_frames"]
