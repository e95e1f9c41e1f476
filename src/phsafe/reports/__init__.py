"""Documents about a release: the report page, and an entry for the OpenDP registry of deployments.

Both are built from the release folder and the finished tables alone; an import contract enforces this.
"""

from __future__ import annotations

from phsafe.reports.build_report import report
from phsafe.reports.registry_entry import registry

__all__ = ["registry", "report"]
