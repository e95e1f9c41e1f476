import pytest

from phsafe.errors import ConfigError, DataError, OutputError, PHSafeError, Reasons


def test_one_reason_or_many():
    assert PHSafeError("a").reasons == ("a",)
    assert PHSafeError(iter(["a", "b"])).reasons == ("a", "b")
    assert str(DataError(["a", "b"])) == "a\nb"


@pytest.mark.parametrize("kind", [ConfigError, DataError, OutputError])
def test_all_are_one_kind_to_users(kind):
    with pytest.raises(PHSafeError):
        raise kind("no")


def test_reasons_of_all_checks_come_together():
    def refuse(*why):
        raise DataError(why)

    reasons = Reasons()
    assert reasons.check(len, [1]) == 1
    assert reasons.check(refuse, "a", "b") is None
    assert reasons.check(refuse, "c") is None
    with pytest.raises(PHSafeError) as caught:
        reasons.settle()
    assert caught.value.reasons == ("a", "b", "c")


def test_nothing_to_settle():
    reasons = Reasons()
    reasons.check(len, "")
    reasons.settle()


def test_other_errors_pass_through():
    with pytest.raises(ZeroDivisionError):
        Reasons().check(lambda: 1 / 0)
