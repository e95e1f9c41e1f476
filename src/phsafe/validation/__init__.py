"""Rules over the canonical tables: counts of what breaks them, never a value."""

from phsafe.validation.rules import Finding
from phsafe.validation.run import NOT_PRIVATE, Report, offenders, validate_and_tabulate, validate_tables

__all__ = ["NOT_PRIVATE", "Finding", "Report", "offenders", "validate_and_tabulate", "validate_tables"]
