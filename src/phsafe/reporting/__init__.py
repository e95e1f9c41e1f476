"""What people read and keep: a page that stands beside a release, and an entry for a registry of deployments.

Everything comes from the release folder and the finished tables; import-linter holds this room to that.
"""

from __future__ import annotations

from phsafe.reporting.deployment import registry
from phsafe.reporting.run import report

__all__ = ["registry", "report"]
