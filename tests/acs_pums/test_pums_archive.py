"""Truncated, damaged, encrypted and malicious zips are refused, and nothing from them is written to disk."""

import io
import struct
import zipfile

import pytest

import phsafe
from phsafe.acs_pums import pums_archive
from phsafe.errors import PHSafeError


@pytest.fixture
def good(survey, pack, tmp_path):
    """The bytes of a valid zip."""
    person, housing = survey.write(tmp_path)
    members = {"psam_p44.csv": person.read_bytes(), "psam_h44.csv": housing.read_bytes()}
    return pack(tmp_path / "good.zip", members).read_bytes()


@pytest.fixture
def refused(tmp_path):
    """Convert a zip that must be refused; check that nothing is left behind and return the reasons."""

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


def zipped(members, **options):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, **options) as file:
        for name, text in members.items():
            file.writestr(name, text)
    return content.getvalue()


def test_a_valid_zip_converts(good, tmp_path):
    conversion = phsafe.pums(tmp_path / "out", [tmp_path / "good.zip"])
    assert conversion.states.row(0) == ("44", 1, 3, 1, 1)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.99])
def test_a_truncated_zip(share, good, refused):
    (reason,) = refused(good[: max(4, int(len(good) * share))])
    assert "truncated or damaged; download it again" in reason


def test_a_zip_with_one_flipped_byte(good, refused):
    """The data are damaged but the directory is intact, so the checksum fails at the end of the member."""
    name = good.index(b"psam_p44.csv") + len("psam_p44.csv")
    (reason,) = refused(good[: name + 60] + bytes([good[name + 60] ^ 1]) + good[name + 61 :])
    assert "truncated or damaged; download it again" in reason


def test_a_zip_without_csv_files(refused):
    for members in ({}, {"readme.pdf": "x"}, {"inner.zip": "x"}, {"__MACOSX/._psam_p44.csv": "x"}):
        (reason,) = refused(zipped(members))
        assert "expected a zip with CSV files in it, got none" in reason


def test_a_zip_bomb(refused):
    bomb = zipped({"psam_p44.csv": b"SPORDER,NP\n" + b"0" * 30_000_000})
    (reason,) = refused(bomb)
    assert "may be a zip bomb" in reason


def test_a_zip_bomb_with_overlapping_members(good, refused):
    """All directory entries refer to the same compressed bytes."""
    packed = zipped({"a.csv": b"SPORDER\n" + bytes(range(256)) * 400})
    start = packed.index(b"PK\x01\x02")
    end = packed.index(b"PK\x05\x06")
    entry = packed[start:end]
    many = b"".join(entry.replace(b"a.csv", f"{n:c}.csv".encode()) for n in [*range(65, 91), *range(97, 123)] * 40)
    count = 52 * 40
    tail = packed[end : end + 8] + struct.pack("<HHII", count, count, len(many), start) + b"\0\0"
    (reason,) = refused(packed[:start] + many + tail)
    assert "may be a zip bomb" in reason or "truncated or damaged" in reason


def test_more_csv_than_any_survey_has(good, tmp_path, monkeypatch):
    monkeypatch.setattr(pums_archive, "MAX_BYTES", 100)
    with pytest.raises(PHSafeError, match="convert fewer files at a time"):
        phsafe.pums(tmp_path / "out", [tmp_path / "good.zip"])


MALICIOUS_NAMES = [
    "../../psam_p44.csv",
    "/psam_p44.csv",
    "a/../../b.csv",
    "..\\psam.csv",
    "C:\\a.csv",
    "a\nb.csv",
    "\x1b[2J.csv",
    "ä.csv",
]


@pytest.mark.parametrize("number", range(len(MALICIOUS_NAMES)))
def test_malicious_member_names(number, refused):
    (reason,) = refused(zipped({MALICIOUS_NAMES[number]: "SPORDER\n1\n"}))
    assert "a suspicious name" in reason
    assert MALICIOUS_NAMES[number] not in reason


def test_an_encrypted_zip(good, refused):
    """Set the encryption flag in the member header and in the directory."""
    encrypted = bytearray(good)
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := good.find(mark, at + 1)) >= 0:
            encrypted[at + offset] |= 1
    reasons = refused(bytes(encrypted))
    assert all("the zip is encrypted" in reason for reason in reasons)


def test_an_unsupported_compression_method(good, refused):
    unsupported = bytearray(good)
    for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = -1
        while (at := good.find(mark, at + 1)) >= 0:
            unsupported[at + offset] = 99
    reasons = refused(bytes(unsupported))
    assert all("unpack it and name the CSV file" in reason for reason in reasons)
