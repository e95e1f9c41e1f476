"""Realistic made-up microdata at any size, for people who may not see the real ones.

`synth` makes a folder; see docs/synth.md for what it holds and how close it is to the nation.
"""

from __future__ import annotations

from phsafe.synthesis.run import DEFAULT_SEED, FORMATS, MARK, synth

__all__ = ["DEFAULT_SEED", "FORMATS", "MARK", "synth"]
