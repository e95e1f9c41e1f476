"""A plot of the audit, as plain SVG: for each mechanism, the proven loss as a share of the claimed one."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phsafe.privacy_audit.audit_run import AuditFinding

_ROW, _LEFT, _WIDTH, _TOP, _MAX_SHARE = 34, 250, 420, 62, 2.0
_COLOURS = {"holds": "#2b6cb0", "convicted": "#c53030", "broken, not convicted": "#b7791f"}


def svg(findings: Sequence[AuditFinding], false_alarm: float) -> str:
    """The plot as SVG; bars longer than twice the claim are cut off, with an arrow."""
    height = _TOP + _ROW * len(findings) + 56
    claim = _LEFT + _WIDTH / _MAX_SHARE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 170} {height}" '
        'font-family="sans-serif" font-size="13" role="img" aria-label="Empirical privacy audit">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="16" y="26" font-size="16" font-weight="bold">Privacy loss that an attacker can prove</text>',
        f'<text x="16" y="46" fill="#555">Share of the claimed loss. {findings[0].trials if findings else 0} trials '
        f"on each of two neighbouring datasets; probability of a false alarm: {false_alarm:g}.</text>",
    ]
    parts += [_bar(finding, _TOP + _ROW * i) for i, finding in enumerate(findings)]
    bottom = _TOP + _ROW * len(findings) + 4
    parts += [
        f'<line x1="{claim}" y1="{_TOP - 6}" x2="{claim}" y2="{bottom}" stroke="black" stroke-dasharray="4 3"/>',
        f'<text x="{claim}" y="{bottom + 16}" text-anchor="middle">the claim</text>',
        f'<text x="16" y="{bottom + 36}" fill="#555">Blue: the real mechanism. '
        "Red: deliberately broken, to show that the audit detects it.</text>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _bar(finding: AuditFinding, y: int) -> str:
    share = finding.lower_bound / finding.claim
    width = min(share, _MAX_SHARE) / _MAX_SHARE * _WIDTH
    colour = _COLOURS[finding.verdict]
    figures = f"{finding.lower_bound:.3f} of {finding.claim:g} {finding.unit}"
    arrow = " →" if share > _MAX_SHARE else ""
    return (
        f'<text x="{_LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(finding.case.name)}</text>'
        f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="22" fill="{colour}"/>'
        f'<text x="{_LEFT + _WIDTH + 10}" y="{y + 16}" fill="{colour}">{escape(figures + arrow)}</text>'
    )
