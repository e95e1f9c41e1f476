"""The sheet “Budgets”: one row per tabulation and level, with inputs on the left and formulas on the right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phsafe.explorer.figures import Figures
from phsafe.explorer.page_requests import Key
from phsafe.explorer.solve_targets import noise_factor
from phsafe.model.exact_numbers import text
from phsafe.model.spec import Kind
from phsafe.privacy_math.level_structure import Structure, structure_of
from phsafe.privacy_math.margins import Z

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.worksheet import Worksheet

    from phsafe.explorer.workbook import Styles

SHEET = "Budgets"
FIRST = 4
#: The height of a heading of three lines.
HEAD_HEIGHT = 46
#: The row of the first threshold on the sheet “Parameters”.
FIRST_THRESHOLD = 9
COLUMNS = {
    "tabulation": "Tabulation", "level": "Level", "on": "Published (yes/no)", "tau": "τ",
    "given": "Input (budget/moe)", "budget": "Budget (input)", "target": "MOE target (input)",
    "stated": "Stated budget", "unbounded": "Unbounded loss", "bounded": "Bounded loss", "share": "Share of total",
    "factor": "Noise factor (k or Δ)", "variance": "Variance σ²", "moe": "MOE, 90 %", "exact": "Exact MOE",
    "met": "Target met", "raw": "Budget for target, millionths", "even": "Rounded half-even", "up": "Raised if missed",
    "staying": "Part if the household stays", "entering": "Part if it enters or leaves",
    "sigma": "σ or scale", "middle": "Approximate quantile", "below": "P below", "at": "P at",
}  # fmt: skip
#: The columns with the parts of a level's loss in the two cases of joint accounting.
CASES = ("staying", "entering")
LETTERS = {name: chr(ord("A") + i) for i, name in enumerate(COLUMNS)}
WIDTHS = {"tabulation": 13, "level": 27, "given": 14, "budget": 12, "target": 12, "variance": 14}
NORMAL_90 = "1.6448536269514722"


class Levels:
    """The sheet “Budgets”, and the positions of its cells for formulas on other sheets."""

    def __init__(self, figures: Figures) -> None:
        self.figures = figures
        catalog = figures.config.catalog
        keys = [(t.name, level.key) for t in catalog.tabulations for level in catalog.levels_of(t)]
        self.rows: dict[Key, int] = {key: FIRST + i for i, key in enumerate(keys)}

    def column(self, name: str) -> str:
        """Return the range of a whole column."""
        letter, last = LETTERS[name], FIRST + len(self.rows) - 1
        return f"{SHEET}!${letter}${FIRST}:${letter}${last}"

    def joint(self, name: str) -> str:
        """Return the formula of a total loss: over tabulations, the larger of two sums over levels (claim C19)."""
        terms = []
        for tabulation in dict.fromkeys(key[0] for key in self.rows):
            rows = [row for key, row in self.rows.items() if key[0] == tabulation]
            ranges = {n: f"{SHEET}!${LETTERS[n]}${rows[0]}:${LETTERS[n]}${rows[-1]}" for n in (name, *CASES)}
            terms.append(f"MAX({','.join(f'SUMPRODUCT({ranges[name]},{ranges[case]})' for case in CASES)})")
        return "+".join(terms)

    def cell(self, key: Key, name: str) -> str:
        """Return the reference of a cell for use on another sheet."""
        return f"{SHEET}!${LETTERS[name]}${self.rows[key]}"

    def write(self, book: Workbook, styles: Styles) -> None:
        """Write the sheet."""
        sheet = book.add_worksheet(SHEET)
        sheet.write_string(0, 0, "Budgets and margins of error", styles.title)
        sheet.write_string(1, 0, "Yellow cells are inputs.", styles.text)
        for i, (name, head) in enumerate(COLUMNS.items()):
            hidden = (
                {"hidden": True}
                if name in ("sigma", "middle", "below", "at", "raw", "even", "up", "staying", "entering")
                else {}
            )
            sheet.set_column(i, i, WIDTHS.get(name, 11), None, hidden)
            sheet.write_string(FIRST - 2, i, head, styles.head)
        sheet.set_row(FIRST - 2, HEAD_HEIGHT)
        sheet.freeze_panes(FIRST - 1, 2)
        for key, row in self.rows.items():
            self._inputs(sheet, styles, key, row)
            self._formulas(sheet, styles, key, row)
        last = FIRST + len(self.rows) - 2
        yes = {"validate": "list", "source": ["yes", "no"]}
        given = {"validate": "list", "source": ["budget", "moe"]}
        positive = {"validate": "decimal", "criteria": "between", "minimum": 1e-9, "maximum": 1e9}
        for name, rule in (("on", yes), ("given", given), ("budget", positive), ("target", positive)):
            column = list(COLUMNS).index(name)
            sheet.data_validation(FIRST - 1, column, last, column, {"error_title": "Invalid input", **rule})
        sheet.protect("", {"format_columns": True})

    def _inputs(self, sheet: Worksheet, styles: Styles, key: Key, row: int) -> None:
        config = self.figures.config
        level = next(level for level in config.catalog.levels if level.key == key[1])
        published = key in self.figures.rows
        numbers = self.figures.row(key) if published else {"budget": "0.000001", "target": "1000"}
        _put(sheet, row, "tabulation", key[0], styles.text)
        _put(sheet, row, "level", level.label, styles.text)
        _put(sheet, row, "on", "yes" if published else "no", styles.input)
        _put(sheet, row, "given", "budget", styles.input)
        _put(sheet, row, "budget", float(numbers["budget"]), styles.input)
        _put(sheet, row, "target", float(numbers["target"]), styles.input)

    def _formulas(self, sheet: Worksheet, styles: Styles, key: Key, row: int) -> None:
        c = {name: f"${letter}{row}" for name, letter in LETTERS.items()}
        config = self.figures.config
        spec = config.catalog.tabulation(key[0])
        if (tau := config.tau_of(spec)) is not None:
            position = list(config.tau).index(spec.threshold)
            _formula(sheet, row, "tau", f"=Parameters!$B${FIRST_THRESHOLD + position}", styles.whole, tau)
        structure = structure_of(spec, next(level for level in config.catalog.levels if level.key == key[1]))
        values = self._values(key)
        z, on, minus_one = text(Z), f"{c['stated']}>0", f"({c['middle']}-1)"
        formulas: dict[str, tuple[str, Any]] = {
            "factor": (_factor(spec.kind, structure, c["tau"]), styles.number),
            "staying": (_part(spec.kind, structure, c["tau"], "staying"), styles.number),
            "entering": (_part(spec.kind, structure, c["tau"], "entering"), styles.number),
            "raw": (f'=1000000*IF(definition="zcdp",{z}^2*{c["factor"]}/{c["target"]}^2,'
                    f'LN(10)*{c["factor"]}/{c["target"]})', styles.number),
            "even": (f"=IF({c['raw']}-INT({c['raw']})=0.5,INT({c['raw']})+MOD(INT({c['raw']}),2),"
                     f"ROUND({c['raw']},0))", styles.whole),
            "up": (f'=IF({c["even"]}<=0,1,IF(INT(IF(definition="zcdp",{z}*SQRT({c["factor"]}*1000000/{c["even"]}),'
                   f'LN(10)*{c["factor"]}*1000000/{c["even"]}))>INT({c["target"]}),{c["even"]}+1,{c["even"]}))',
                   styles.whole),
            "stated": (f'=IF({c["on"]}="yes",IF({c["given"]}="moe",{c["up"]}/1000000,{c["budget"]}),0)',
                       styles.budget),
            "unbounded": (f"={c['stated']}*{_multiple(spec.kind, 'tight-bounded', 0.5, 1)}", styles.budget),
            "bounded": (f"={c['stated']}*{_multiple(spec.kind, 'tight', 4, 2)}", styles.budget),
            "share": (f"=IF(loss_unbounded>0,{c['unbounded']}/SUM({self.column('unbounded')}),0)", styles.share),
            "variance": (f'=IF({on},IF(definition="zcdp",{c["sigma"]}^2,2*EXP(-1/{c["sigma"]})/'
                         f'(1-EXP(-1/{c["sigma"]}))^2),"")', styles.number),
            "moe": (f'=IF({on},IF(definition="zcdp",{z},LN(10))*{c["sigma"]},"")', styles.number),
            "exact": (f'=IF({on},IF(definition="zcdp",MAX(0,{c["middle"]}-1+IF({c["below"]}<0.9,1+IF({c["at"]}<0.9,1,0)'
                      f',0)),MAX(0,-INT(-(-{c["sigma"]}*LN(0.05*(1+EXP(-1/{c["sigma"]})))-1-1E-12)))),"")',
                      styles.whole),
            "met": (f'=IF({on},IF(INT({c["moe"]})<={c["target"]},"yes","no"),"")', styles.note),
            "sigma": (f'=IF({on},IF(definition="zcdp",SQRT({c["factor"]}/{c["stated"]}),'
                      f'{c["factor"]}/{c["stated"]}),"")', styles.number),
            "middle": (f'=IF({on},ROUND({NORMAL_90}*{c["sigma"]},0),"")', styles.whole),
            "below": (f'=IF({on},{_probability(minus_one, c["sigma"])},"")', styles.number),
            "at": (f'=IF({on},{_probability(c["middle"], c["sigma"])},"")', styles.number),
        }  # fmt: skip
        for name, (formula, style) in formulas.items():
            _formula(sheet, row, name, formula, style, values.get(name, ""))

    def _values(self, key: Key) -> dict[str, Any]:
        """Return the results of the visible formulas, stored for viewers that don't calculate."""
        if key not in self.figures.rows:
            return {"stated": 0, "unbounded": 0, "bounded": 0, "share": 0}
        row = self.figures.row(key)
        event = self.figures.rows[key].event
        return {
            "stated": float(row["budget"]),
            "unbounded": float(event.loss.unbounded),
            "bounded": float(event.loss.bounded),
            "share": row["share"],
            "factor": float(noise_factor(self.figures.config, key)),
            "variance": row["sigma2"],
            "moe": row["moe"],
            "exact": row["moe_exact"],
            "met": "yes" if int(row["moe"]) <= float(row["target"]) else "no",
        }


def _distances(kind: Kind, structure: Structure, tau: str) -> dict[str, tuple[str, str]]:
    """Return the formulas for the squared Δ₂ and for Δ₁: by itself, staying and entering (claim C19)."""
    if kind == "dropped":
        return dict.fromkeys(("alone", "staying", "entering"), ("1", "1"))
    k, places = (tau, structure.places) if kind == "persons" else ("1", 1)
    gate = (f"MAX({k}^2,{places})", f"MAX({k},{places})")
    alone = {"moves": (f"2*{k}^2", f"2*{k}"), "mixed gate": (f"({k}^2+1)", f"({k}+1)")}.get(structure.level_class, gate)
    swap = str(places if kind == "persons" else 0)
    staying = alone if structure.reads_units else (swap, swap)
    return {"alone": alone, "staying": staying, "entering": (f"{k}^2", k)}


def _factor(kind: Kind, structure: Structure, tau: str) -> str:
    """Return the formula for the noise factor of a level: k in σ² = k/ρ, or Δ in b = Δ/ε."""
    square, sum_ = _distances(kind, structure, tau)["alone"]
    if kind == "dropped":
        return '=IF(definition="zcdp",0.5,1)'
    published = (f"2*({tau}+1)^2", f"2*{tau}+2") if kind == "persons" else ("2", "2")
    zcdp = f'IF(mode="published",{published[0]},IF(mode="tight",{square}/2,{square}))'
    return f'=IF(definition="zcdp",{zcdp},IF(mode="published",{published[1]},{sum_}))'


def _part(kind: Kind, structure: Structure, tau: str, case: str) -> str:
    """Return the formula for the part of a level's loss in a case of joint accounting; the published bound has none."""
    distances = _distances(kind, structure, tau)
    ratios = [f"{d}/({whole})" for d, whole in zip(distances[case], distances["alone"], strict=True)]
    return f'=IF(mode="published",1,IF(definition="zcdp",{ratios[0]},{ratios[1]}))'


def _multiple(kind: Kind, mode: str, there: float, elsewhere: float) -> str:
    """Return the formula for the loss per unit of budget, which has another value in one mode of zCDP.

    The loss of dropped persons is the same in every mode.
    """
    return f"{elsewhere}" if kind == "dropped" else f'IF(AND(definition="zcdp",mode="{mode}"),{there},{elsewhere})'


def _probability(m: str, sigma: str) -> str:
    """Return the formula for P(|X| ≤ m) of the discrete Gaussian: a sum for small σ, Euler-Maclaurin for large σ."""
    weights = f"EXP(-((ROW($1:$40)/{sigma})^2)/2)"
    small = f"(1+2*SUMPRODUCT((ROW($1:$40)<={m})*{weights}))/(1+2*SUMPRODUCT({weights}))"
    end = f"EXP(-(({m}/{sigma})^2)/2)/({sigma}*SQRT(2*PI()))"
    large = f"2*NORMSDIST({m}/{sigma})-1+{end}*(1-{m}/(6*{sigma}^2))"
    return f"IF({sigma}<3,{small},{large})"


def _put(sheet: Worksheet, row: int, name: str, value: str | float, style: Any) -> None:  # noqa: ANN401
    column = list(COLUMNS).index(name)
    if isinstance(value, str):
        sheet.write_string(row - 1, column, value, style)
    else:
        sheet.write_number(row - 1, column, value, style)


def _formula(sheet: Worksheet, row: int, name: str, formula: str, style: Any, value: Any) -> None:  # noqa: ANN401
    sheet.write_formula(row - 1, list(COLUMNS).index(name), formula, style, value)
