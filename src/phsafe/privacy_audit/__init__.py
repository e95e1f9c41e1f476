"""An empirical privacy audit: attack the real mechanism on worst-case neighbours and bound its privacy loss from below.

The audit doesn't rely on any proof. It counts two neighbouring populations with the real engine, measures both many
times in real sessions, trains an attacker to tell them apart, and turns the attacker's success into a lower confidence
bound on the privacy loss. A mechanism is convicted if this bound exceeds the claimed loss.
"""

from __future__ import annotations

from phsafe.privacy_audit.audit_run import FALSE_ALARM, AuditFinding, audit

__all__ = ["FALSE_ALARM", "AuditFinding", "audit"]
