"""Realistic synthetic microdata of any size, for work that must not touch confidential records.

`synth` generates a data folder; docs/how-to/synth.md describes its content and how closely it matches the nation.
"""

from __future__ import annotations

from phsafe.synthetic.generate import DEFAULT_SEED, FORMATS, MARK, synth

__all__ = ["DEFAULT_SEED", "FORMATS", "MARK", "synth"]
