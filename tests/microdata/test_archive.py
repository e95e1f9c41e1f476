"""Zips that are cut off, damaged, locked or made to harm are refused in words, and nothing of them lands on disk."""

import io
import struct
import zipfile

import pytest

import phsafe
from phsafe.errors import PHSafeError
from phsafe.microdata import archive


@pytest.fixture
def good(survey, pack, tmp_path):
    """The bytes of a zip that converts."""
    person, housing = survey.write(tmp_path)
    members = {"psam_p44.csv": person.read_bytes(), "psam_h44.csv": housing.read_bytes()}
    return pack(tmp_path / "good.zip", members).read_bytes()


@pytest.fixture
def refused(tmp_path):
    """Convert a zip of some bytes, which must be refused; the reasons, after a look at what was left behind."""

    def run(content):
        inside = tmp_path / "inside"
        (inside / "outputs").mkdir(parents=True, exist_ok=True)
        (inside / "csv_pri.zip").write_bytes(content)
        with pytest.raises(PHSafeError) as caught:
            phsafe.pums(inside / "outputs" / "out", [inside / "csv_pri.zip"])
        assert sorted(path.name for path in inside.rglob("*")) == ["csv_pri.zip", "outputs"]
        assert all(reason.startswith(f"{inside / 'csv_pri.zip'}") for reason in caught.value.reasons)
        return caught.value.reasons

    return run


def zipped(members, **words):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, **words) as file:
        for name, text in members.items():
            file.writestr(name, text)
    return content.getvalue()


def test_a_whole_zip_converts(good, tmp_path):
    made = phsafe.pums(tmp_path / "out", [tmp_path / "good.zip"])
    assert made.states.row(0) == ("44", 1, 3, 1, 1)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.99])
def test_a_zip_that_is_cut_off(share, good, refused):
    (reason,) = refused(good[: max(4, int(len(good) * share))])
    assert "cut off or damaged; fetch it again" in reason


def test_a_zip_with_one_flipped_byte(good, refused):
    """The packed bytes are damaged, and the list of members is whole: seen when the end of the member is reached."""
    name = good.index(b"psam_p44.csv") + len("psam_p44.csv")
    (reason,) = refused(good[: name + 60] + bytes([good[name + 60] ^ 1]) + good[name + 61 :])
    assert "cut off or damaged; fetch it again" in reason


def test_a_zip_of_nothing_that_matters(refused):
    for members in ({}, {"readme.pdf": "x"}, {"inner.zip": "x"}, {"__MACOSX/._psam_p44.csv": "x"}):
        (reason,) = refused(zipped(members))
        assert "expected a zip with CSV files in it, got none" in reason


def test_a_zip_bomb(refused):
    bomb = zipped({"psam_p44.csv": b"SPORDER,NP\n" + b"0" * 30_000_000})
    (reason,) = refused(bomb)
    assert "made to fill the disk" in reason


def test_a_zip_bomb_of_one_piece_under_many_names(good, refused):
    """All entries of the list name the same packed bytes."""
    packed = zipped({"a.csv": b"SPORDER\n" + bytes(range(256)) * 400})
    start = packed.index(b"PK\x01\x02")
    end = packed.index(b"PK\x05\x06")
    entry = packed[start:end]
    many = b"".join(entry.replace(b"a.csv", f"{n:c}.csv".encode()) for n in [*range(65, 91), *range(97, 123)] * 40)
    count = 52 * 40
    tail = packed[end : end + 8] + struct.pack("<HHII", count, count, len(many), start) + b"\0\0"
    (reason,) = refused(packed[:start] + many + tail)
    assert "made to fill the disk" in reason or "cut off or damaged" in reason


def test_more_csv_than_any_survey(good, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_BYTES", 100)
    with pytest.raises(PHSafeError, match="convert fewer files at once"):
        phsafe.pums(tmp_path / "out", [tmp_path / "good.zip"])


HOSTILE = [
    "../../psam_p44.csv",
    "/psam_p44.csv",
    "a/../../b.csv",
    "..\\psam.csv",
    "C:\\a.csv",
    "a\nb.csv",
    "\x1b[2J.csv",
    "ä.csv",
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_names(number, refused):
    (reason,) = refused(zipped({HOSTILE[number]: "SPORDER\n1\n"}))
    assert "a name that no file of the Bureau's has" in reason
    assert HOSTILE[number] not in reason


def test_a_locked_zip(good, refused):
    """The flag of a password, in the member and in the list."""
    locked = bytearray(good)
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := good.find(mark, at + 1)) >= 0:
            locked[at + place] |= 1
    reasons = refused(bytes(locked))
    assert all("packed with a password" in reason for reason in reasons)


def test_a_zip_packed_in_a_way_of_its_own(good, refused):
    strange = bytearray(good)
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = -1
        while (at := good.find(mark, at + 1)) >= 0:
            strange[at + place] = 99
    reasons = refused(bytes(strange))
    assert all("unpack it and name the CSV file" in reason for reason in reasons)
