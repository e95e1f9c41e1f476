"""An empirical audit: worst-case neighbours, many runs of the real mechanism, and what an attacker learns.

It trusts no proof. It counts two neighbouring populations with the real engine, measures both again and again with
the real session, lets an attacker learn to tell them apart, and turns the attacker's success into a lower bound on
the privacy loss that holds with a stated probability. A bound above the claim convicts.
"""

from __future__ import annotations

from phsafe.auditing.report import FALSE_ALARM, Finding, audit

__all__ = ["FALSE_ALARM", "Finding", "audit"]
