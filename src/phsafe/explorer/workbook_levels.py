"""The table of levels on the sheet “Decision”: one row per tabulation and level, inputs left and formulas right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from phsafe.configs.line_sums import CellSum
from phsafe.explorer.figures import Figures
from phsafe.explorer.page_requests import Key
from phsafe.explorer.solve_targets import noise_factor
from phsafe.explorer.workbook_formulas import LevelFormulas, letters, probability
from phsafe.model.exact_numbers import text
from phsafe.privacy_math.margins import Z
from phsafe.privacy_math.noise_sums import laplace_quantile

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.worksheet import Worksheet

    from phsafe.explorer.workbook import Styles

SHEET = "Decision"
#: The height of a heading of three lines.
HEAD_HEIGHT = 46
COLUMNS = {
    "tabulation": "Tabulation", "level": "Level", "on": "Published (yes/no)", "tau": "τ",
    "budget": "Budget (type this …", "target": "… or a margin of error)", "stated": "Stated budget",
    "moe": "MOE, 90 %", "base_budget": "Budget, baseline", "base_moe": "MOE, baseline", "change": "Change of MOE",
    "unbounded": "Unbounded loss", "bounded": "Bounded loss", "share": "Share of total",
    "factor": "Noise factor (k or Δ)", "variance": "Variance σ²", "exact": "Exact MOE", "met": "Target met",
    "raw": "Budget for target, millionths", "even": "Rounded half-even", "up": "Raised if missed",
    "staying": "Loss if the household stays", "entering": "Loss if it enters or leaves",
    "staying_bounded": "Bounded, stays", "entering_bounded": "Bounded, enters or leaves",
    "split": "Share of cells counted blind", "sigma_blind": "σ of cells counted blind",
    "sigma_rest": "σ of other cells",
    "sigma": "σ or scale", "middle": "Approximate quantile", "below": "P below", "at": "P at",
}  # fmt: skip
#: Inputs, with what they accept.
INPUTS: dict[str, dict[str, Any]] = {
    "on": {"validate": "list", "source": ["yes", "no"]},
    "budget": {"validate": "decimal", "criteria": "between", "minimum": 1e-9, "maximum": 1e9},
    "target": {"validate": "decimal", "criteria": "between", "minimum": 0.01, "maximum": 1e9},
}
#: From this column on, columns are intermediate results and are hidden.
FIRST_HIDDEN = "raw"
LETTERS = {name: letters(i) for i, name in enumerate(COLUMNS)}
NORMAL_90 = "1.6448536269514722"


class Levels:
    """The table of levels, and the positions of its cells for formulas elsewhere.

    Args:
        figures: The figures of the config.
        first: The row of the first level on the sheet.
        base: The figures of the baseline, if there is one.
        taus: Tabulation → the cell of its threshold.
    """

    def __init__(
        self, figures: Figures, first: int, base: Figures | None = None, taus: dict[str, str] | None = None
    ) -> None:
        self.figures, self.first, self.base, self.taus = figures, first, base, taus or {}
        catalog = figures.config.catalog
        keys = [(t.name, level.key) for t in catalog.tabulations for level in catalog.levels_of(t)]
        self.rows: dict[Key, int] = {key: first + i for i, key in enumerate(keys)}
        self.formulas = {key: LevelFormulas(figures.config, key) for key in keys}

    def column(self, name: str) -> str:
        """Return the range of a whole column."""
        letter, last = LETTERS[name], self.first + len(self.rows) - 1
        return f"{SHEET}!${letter}${self.first}:${letter}${last}"

    def joint(self, *cases: str) -> str:
        """Return the formula of a total loss: over tabulations, the largest of sums over levels (claim C19)."""
        terms = []
        for tabulation in dict.fromkeys(key[0] for key in self.rows):
            rows = [row for key, row in self.rows.items() if key[0] == tabulation]
            ranges = {n: f"{SHEET}!${LETTERS[n]}${rows[0]}:${LETTERS[n]}${rows[-1]}" for n in ("stated", *cases)}
            sums = [f"SUMPRODUCT({ranges['stated']},{ranges[case]})" for case in cases]
            terms.append(f"MAX({','.join(sums)})")
        return "+".join(terms)

    def cell(self, key: Key, name: str) -> str:
        """Return the reference of a cell for use elsewhere."""
        return f"{SHEET}!${LETTERS[name]}${self.rows[key]}"

    def published(self, parts: Sequence[CellSum], level: str) -> str:
        """Return the condition that all tabulations of a line are published at a level."""
        cells = [self.cell((part.tabulation, level), "stated") for part in parts]
        return f"AND({','.join(f'{cell}>0' for cell in cells)})"

    def moe(self, part: CellSum, level: str) -> str:
        """Return the formula of the MOE of a sum of cells.

        The structured mode of pure DP can add noise of two scales, whose quantile has no formula: 1.645 σ instead.
        """
        noises = self._noises(part, level)
        squares = "+".join(f"{n}*{sigma}^2" for n, sigma in noises)
        largest = ",".join(sigma for _, sigma in noises)
        pure = f"{laplace_quantile(part.cells)!r}*MAX({largest})"
        if len(noises) > 1:
            pure = f'IF(mode="structured",{text(Z)}*SQRT({self.variance(part, level)}),{pure})'
        return f'IF(definition="zcdp",{text(Z)}*SQRT({squares}),{pure})'

    def variance(self, part: CellSum, level: str) -> str:
        """Return the formula of the variance of a sum of cells."""
        terms = [
            f'{n}*IF(definition="zcdp",{sigma}^2,2*EXP(-1/{sigma})/(1-EXP(-1/{sigma}))^2)'
            for n, sigma in self._noises(part, level)
        ]
        return f"({'+'.join(terms)})"

    def _noises(self, part: CellSum, level: str) -> list[tuple[int, str]]:
        """Return the number of cells that the structured mode counts blind, and of others, each with its σ."""
        key = (part.tabulation, level)
        blind = len(set(part.basis) & set(self.formulas[key].blind))
        counts = (("sigma_blind", blind), ("sigma_rest", part.cells - blind))
        return [(n, self.cell(key, name)) for name, n in counts if n]

    def write(self, book: Workbook, sheet: Worksheet, styles: Styles) -> None:
        """Write the table, with its headings in the row above."""
        hidden = list(COLUMNS).index(FIRST_HIDDEN)
        sheet.set_column(hidden, len(COLUMNS) - 1, 11, None, {"hidden": True})
        for i, head in enumerate(COLUMNS.values()):
            sheet.write_string(self.first - 2, i, head, styles.head)
        sheet.set_row(self.first - 2, HEAD_HEIGHT)
        for key, row in self.rows.items():
            self._inputs(sheet, styles, key, row)
            self._formulas(sheet, styles, key, row)
        last = self.first + len(self.rows) - 2
        for name, rule in INPUTS.items():
            column = list(COLUMNS).index(name)
            sheet.data_validation(self.first - 1, column, last, column, {"error_title": "Invalid input", **rule})

    def _inputs(self, sheet: Worksheet, styles: Styles, key: Key, row: int) -> None:
        level = next(level for level in self.figures.config.catalog.levels if level.key == key[1])
        published = key in self.figures.rows
        budget = self.figures.row(key)["budget"] if published else "0.000001"
        _put(sheet, row, "tabulation", key[0], styles.text)
        _put(sheet, row, "level", level.label, styles.text)
        _put(sheet, row, "on", "yes" if published else "no", styles.input)
        _put(sheet, row, "budget", float(budget), styles.input)
        _put(sheet, row, "target", None, styles.input)
        if self.base is not None and key in self.base.rows:
            was = self.base.row(key)
            _put(sheet, row, "base_budget", float(was["budget"]), styles.base_budget)
            _put(sheet, row, "base_moe", was["moe"], styles.base)

    def _formulas(self, sheet: Worksheet, styles: Styles, key: Key, row: int) -> None:
        c = {name: f"${letter}{row}" for name, letter in LETTERS.items()}
        config, of = self.figures.config, self.formulas[key]
        spec = config.catalog.tabulation(key[0])
        if (tau := config.tau_of(spec)) is not None:
            _formula(sheet, row, "tau", f"={self.taus[spec.threshold]}", styles.whole, tau)
        z, on, minus_one = text(Z), f"{c['stated']}>0", f"({c['middle']}-1)"
        blind, rest = of.sigmas(c)
        formulas: dict[str, tuple[str, Any]] = {
            "factor": (of.factor(c), styles.number),
            "staying": (of.loss(c, "staying"), styles.number),
            "entering": (of.loss(c, "entering"), styles.number),
            "staying_bounded": (of.loss(c, "staying", bounded=True), styles.number),
            "entering_bounded": (of.loss(c, "entering", bounded=True), styles.number),
            "split": (of.split(c), styles.number),
            "raw": (f'=IF({c["target"]}="",0,1000000*IF(definition="zcdp",{z}^2*{c["factor"]}/{c["target"]}^2,'
                    f'LN(10)*{c["factor"]}/{c["target"]}))', styles.number),
            "even": (f"=IF({c['raw']}-INT({c['raw']})=0.5,INT({c['raw']})+MOD(INT({c['raw']}),2),"
                     f"ROUND({c['raw']},0))", styles.whole),
            "up": (f'=IF({c["even"]}<=0,1,IF(INT(IF(definition="zcdp",{z}*SQRT({c["factor"]}*1000000/{c["even"]}),'
                   f'LN(10)*{c["factor"]}*1000000/{c["even"]}))>INT({c["target"]}),{c["even"]}+1,{c["even"]}))',
                   styles.whole),
            "stated": (f'=IF({c["on"]}="yes",IF({c["target"]}<>"",{c["up"]}/1000000,{c["budget"]}),0)',
                       styles.budget),
            "change": (f'=IF(AND({on},N({c["base_moe"]})>0),{c["moe"]}/{c["base_moe"]}-1,"")', styles.change),
            "unbounded": (f"={c['stated']}*{of.loss(c, 'alone')[1:]}", styles.budget),
            "bounded": (f"={c['stated']}*{of.loss(c, 'alone', bounded=True)[1:]}", styles.budget),
            "share": (f"=IF(loss_unbounded>0,{c['unbounded']}/SUM({self.column('unbounded')}),0)", styles.share),
            "variance": (f'=IF({on},IF(definition="zcdp",{c["sigma"]}^2,2*EXP(-1/{c["sigma"]})/'
                         f'(1-EXP(-1/{c["sigma"]}))^2),"")', styles.number),
            "moe": (f'=IF({on},IF(definition="zcdp",{z},LN(10))*{c["sigma"]},"")', styles.number),
            "exact": (f'=IF({on},IF(definition="zcdp",MAX(0,{c["middle"]}-1+IF({c["below"]}<0.9,1+IF({c["at"]}<0.9,1,0)'
                      f',0)),MAX(0,-INT(-(-{c["sigma"]}*LN(0.05*(1+EXP(-1/{c["sigma"]})))-1-1E-12)))),"")',
                      styles.whole),
            "met": (f'=IF(AND({on},{c["target"]}<>""),IF(INT({c["moe"]})<={c["target"]},"yes","no"),"")', styles.note),
            "sigma": (f'=IF({on},IF(definition="zcdp",SQRT({c["factor"]}/{c["stated"]}),'
                      f'{c["factor"]}/{c["stated"]}),"")', styles.number),
            "sigma_blind": (f'=IF({on},{blind},"")', styles.number),
            "sigma_rest": (f'=IF({on},{rest},"")', styles.number),
            "middle": (f'=IF({on},ROUND({NORMAL_90}*{c["sigma"]},0),"")', styles.whole),
            "below": (f'=IF({on},{probability(minus_one, c["sigma"])},"")', styles.number),
            "at": (f'=IF({on},{probability(c["middle"], c["sigma"])},"")', styles.number),
        }  # fmt: skip
        values = self._values(key)
        for name, (formula, style) in formulas.items():
            _formula(sheet, row, name, formula, style, values.get(name, ""))

    def _values(self, key: Key) -> dict[str, Any]:
        """Return the results of the visible formulas, stored for viewers that don't calculate."""
        if key not in self.figures.rows:
            return {"stated": 0, "unbounded": 0, "bounded": 0, "share": 0}
        row, event = self.figures.row(key), self.figures.rows[key].event
        was = None if self.base is None else self.base.rows.get(key)
        return {
            "stated": float(row["budget"]),
            "unbounded": float(event.loss.unbounded),
            "bounded": float(event.loss.bounded),
            "share": row["share"],
            "factor": float(noise_factor(self.figures.config, key)),
            "variance": row["sigma2"],
            "moe": row["moe"],
            "change": "" if was is None else row["moe"] / was.moe - 1,
            "exact": row["moe_exact"],
        }


def _put(sheet: Worksheet, row: int, name: str, value: str | float | None, style: Any) -> None:  # noqa: ANN401
    column = list(COLUMNS).index(name)
    if value is None:
        sheet.write_blank(row - 1, column, None, style)
    elif isinstance(value, str):
        sheet.write_string(row - 1, column, value, style)
    else:
        sheet.write_number(row - 1, column, value, style)


def _formula(sheet: Worksheet, row: int, name: str, formula: str, style: Any, value: Any) -> None:  # noqa: ANN401
    sheet.write_formula(row - 1, list(COLUMNS).index(name), formula, style, value)
