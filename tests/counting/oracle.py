"""The oracle: the tabulations implemented independently, one record at a time. Shares no code with the package.

Records are dictionaries. A value outside its column's domain, including null, passes no filter and is in no cell or
group.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict

PERSON_COLUMNS = ("RTYPE", "MAFID", "QAGE", "CENHISP", "CENRACE", "RELSHIP")
FAMILY = ("20", "21", "23", "25", "26", "27", "28", "29", "30", "31", "32", "33")


def tabulate(persons, units, geo, *, states, tau, truncate=True, structured=False):
    """(tabulation, region type, region, iteration, cell) → count, for every positive count, including derived ones.

    If `structured`, the total of PH1_num and three cells of PH3 are counted without units and without truncation.
    """
    homes = housing_units(units, geo, states)
    counts = Counter()

    def count_units(name, keep, cell):
        for unit in homes.values():
            if keep(unit) and cell(unit) is not None:
                add(counts, name, unit, cell(unit), householder_groups(unit))

    def count_persons(name, keep_person, keep_unit, cell, groups):
        for mafid, people in kept(persons, keep_person, tau[name] if truncate else None).items():
            unit = homes.get(mafid)
            if unit is None or not keep_unit(unit):
                continue
            for person in people:
                if cell(person, unit) is not None:
                    add(counts, name, unit, cell(person, unit), groups(person, unit))

    def any_unit(unit):
        return True

    def occupied(unit):
        return unit["RTYPE"] == 2 and unit["HHT"] in ("1", "2", "3", "4", "5", "6", "7")

    def family(unit):
        return unit["HHT"] in ("1", "2", "3")

    def in_household(person):
        return person["RTYPE"] == 3

    def under_18(person):
        return person["QAGE"] is not None and 0 <= person["QAGE"] < 18

    def by_householder(person, unit):
        return householder_groups(unit)

    def by_person(person, unit):
        return groups(person["CENRACE"], person["CENHISP"])

    def total_only(person, unit):
        return ["*"]

    def age_cell(person, unit):
        age = person["QAGE"]
        if age is None or not 0 <= age <= 115:
            return None
        return 2 if age < 18 else 3

    count_persons("PH1_num", in_household, any_unit, age_cell, by_householder)
    count_units("PH1_denom", occupied, lambda unit: 1)
    count_persons("PH2", in_household, any_unit, ph2_cell, total_only)
    count_persons("PH3", lambda p: in_household(p) and under_18(p), any_unit, ph3_cell, by_person)
    count_persons(
        "PH4",
        lambda p: in_household(p) and p["RELSHIP"] in FAMILY,
        family,
        age_cell,
        by_householder,
    )
    count_units("PH5_denom", family, lambda unit: 1)
    count_persons(
        "PH6",
        lambda p: in_household(p) and under_18(p) and p["RELSHIP"] in ("25", "26", "27"),
        any_unit,
        ph6_cell,
        total_only,
    )
    count_persons("PH7", in_household, any_unit, ph7_cell, by_householder)
    count_units("PH8_denom", occupied, ph8_cell)

    def count_dropped(name, universe, keep, cell, person_groups=total_only):
        for mafid, people in beyond(persons, keep, tau[universe]).items():
            state = located(mafid, geo, states)
            for person in people:
                if state is not None and cell(person) is not None:
                    add(counts, name, {"STATE": state}, cell(person), person_groups(person, None))

    def count_oversized(name, universe, keep, keep_unit, cell, unit_groups=householder_groups):
        for mafid in beyond(persons, keep, tau[universe]):
            unit = homes.get(mafid)
            if unit is not None and keep_unit(unit) and cell(unit) is not None:
                add(counts, name, unit, cell(unit), unit_groups(unit))

    def child(person):
        return in_household(person) and under_18(person)

    def own_child(person):
        return child(person) and person["RELSHIP"] in ("25", "26", "27")

    def in_family(person):
        return in_household(person) and person["RELSHIP"] in FAMILY

    def everyone(unit):
        return ["*"]

    def own_child_family(first, step):
        return lambda unit: {"01": first, "03": first + step, "10": first + 2 * step, "06": first + 3 * step}.get(
            unit["HHT2"]
        )

    def relationship(person):
        cell = ph3_cell(person, {"HHT2": "01"})
        return 3 if cell == 4 else cell

    count_dropped("PH1_dropped", "PH1_num", in_household, lambda p: age_cell(p, None))
    count_dropped("PH3_dropped", "PH3", child, relationship, by_person)
    count_dropped("PH4_dropped", "PH4", in_family, lambda p: age_cell(p, None))
    count_dropped("PH6_dropped", "PH6", own_child, lambda p: ph6_cell(p, {"HHT2": "01"}) - 2)
    count_oversized("PH1_oversized", "PH1_num", in_household, any_unit, lambda unit: 1)
    count_oversized("PH2_oversized", "PH2", in_household, any_unit, lambda unit: ph2_cell(None, unit), everyone)
    count_oversized("PH3_oversized", "PH3", child, any_unit, own_child_family(4, 1))
    count_oversized("PH4_oversized", "PH4", in_family, family, lambda unit: 1)
    count_oversized("PH6_oversized", "PH6", own_child, any_unit, own_child_family(2, 5), everyone)
    count_oversized("PH7_oversized", "PH7", in_household, any_unit, lambda unit: ph7_cell(None, unit))
    if structured:
        for key in [k for k in counts if (k[0] == "PH1_num" and k[3] == "*") or (k[0] == "PH3" and k[4] in (2, 9, 10))]:
            del counts[key]
        for person in persons:
            state = located(person["MAFID"], geo, states) if person["MAFID"] is not None else None
            if state is not None and in_household(person) and age_cell(person, None) is not None:
                add(counts, "PH1_num", {"STATE": state}, age_cell(person, None), ["*"])
            if state is not None and child(person) and ph3_cell(person, {"HHT2": None}) is not None:
                add(counts, "PH3", {"STATE": state}, ph3_cell(person, {"HHT2": None}), by_person(person, None))
    for (name, region_type, region, code, cell), n in list(counts.items()):
        if name == "PH4":
            counts["PH5_num", region_type, region, code, cell] += n
        if name == "PH7":
            counts["PH8_num", region_type, region, code, {2: 2, 3: 2, 4: 3}[cell]] += n
    return dict(counts)


def housing_units(units, geo, states):
    """MAFID → unit with its STATE: unique in units and in geo, not group quarters, in a state of the filter."""
    in_units, in_geo = defaultdict(list), defaultdict(list)
    for unit in units:
        in_units[unit["MAFID"]].append(unit)
    for row in geo:
        in_geo[row["MAFID"]].append(row)
    homes = {}
    for mafid, found in in_units.items():
        geo_rows = in_geo[mafid]
        if mafid is None or len(found) != 1 or len(geo_rows) != 1:
            continue
        if found[0]["RTYPE"] == 2 and geo_rows[0]["RTYPE"] == 2 and geo_rows[0]["TABBLKST"] in states:
            homes[mafid] = found[0] | {"STATE": geo_rows[0]["TABBLKST"]}
    return homes


def add(counts, name, unit, cell, codes):
    for code in codes:
        counts[name, "USA", "1", code, cell] += 1
        counts[name, "STATE", unit["STATE"], code, cell] += 1


def householder_groups(unit):
    return groups(unit["HHRACE"], unit["HHSPAN"])


def groups(race, ethnicity):
    found = ["*"]
    if race in ("01", "02", "03", "04", "05", "06"):
        found.append("ABCDEF"[int(race) - 1])
    if race in [f"{code:02d}" for code in range(7, 64)]:
        found.append("G")
    if ethnicity == 2:
        found.append("H")
    if race == "01" and ethnicity == 1:
        found.append("I")
    return found


def ph2_cell(person, unit):
    hht2, couple = unit["HHT2"], unit["CPLT"]
    if hht2 in ("01", "02"):
        return {"1": 3, "2": 4}.get(couple)
    if hht2 in ("03", "04"):
        return {"3": 6, "4": 7}.get(couple)
    return {"09": 9, "10": 10, "11": 10, "12": 10, "05": 12, "06": 13, "07": 13, "08": 13}.get(hht2)


def ph3_cell(person, unit):
    relationship = person["RELSHIP"]
    if relationship in ("20", "21", "22", "23", "24", "34", "35", "36"):
        return 2
    if relationship in ("25", "26", "27"):
        return {"01": 4, "03": 5, "10": 6, "06": 7}.get(unit["HHT2"])
    if relationship == "30":
        return 9
    if relationship in ("28", "29", "31", "32", "33"):
        return 10
    return None


def ph6_cell(person, unit):
    first = {"01": 3, "03": 8, "10": 13, "06": 18}.get(unit["HHT2"])
    if first is None:
        return None
    age = person["QAGE"]
    return first + (0 if age < 4 else 1 if age < 6 else 2 if age < 12 else 3)


def ph7_cell(person, unit):
    return {"1": 2, "2": 3, "3": 4, "4": 4}.get(unit["TEN"])


def ph8_cell(unit):
    return {"1": 2, "2": 2, "3": 3, "4": 3}.get(unit["TEN"])


def kept(persons, keep, tau):
    """MAFID → the persons who pass a filter, the first τ of each MAFID in the 2020 order (all if τ is None)."""
    households = defaultdict(list)
    for person in persons:
        if keep(person):
            households[person["MAFID"]].append(person)
    return {mafid: first(people, tau) for mafid, people in households.items()}


def beyond(persons, keep, tau):
    """MAFID → the persons who pass a filter and are beyond the first τ in the 2020 order, for oversized MAFIDs only."""
    whole, some = kept(persons, keep, None), kept(persons, keep, tau)
    dropped = {}
    for mafid, people in whole.items():
        left = list(people)
        for person in some[mafid]:
            left.remove(person)
        if left and mafid is not None:
            dropped[mafid] = left
    return dropped


def located(mafid, geo, states):
    """The state of a MAFID with one geo row, in a state of the filter; None for others. Units don't matter."""
    found = [row["TABBLKST"] for row in geo if row["MAFID"] == mafid]
    return found[0] if len(found) == 1 and found[0] in states else None


def first(people, tau):
    if tau is None or len(people) <= tau:
        return people
    seen, keyed = Counter(), []
    for person in people:
        record = tuple(person[column] for column in PERSON_COLUMNS)
        seen[record] += 1
        keyed.append((order_key(person, seen[record]), person))
    keyed.sort(key=lambda pair: pair[0])
    return [person for _, person in keyed[:tau]]


def order_key(person, number):
    parts = [
        text(person["RTYPE"]),
        binary(person["MAFID"]),
        binary(person["QAGE"]),
        binary(person["CENHISP"]),
        text(person["CENRACE"]),
        text(person["RELSHIP"]),
        binary(number),
    ]
    return sha256(sha256(",".join(sha256(part) for part in parts)))


def sha256(value):
    return hashlib.sha256(value.encode()).hexdigest()


def text(value):
    """The value as text. The 2020 specification has no nulls; here they are empty."""
    return "" if value is None else str(value)


def binary(value):
    """Binary digits without prefix; negative numbers, which 2020 did not have, are 64-bit two's complement."""
    return "" if value is None else format(value % 2**64, "b")
