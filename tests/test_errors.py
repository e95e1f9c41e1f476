"""`PHSafeError` and the collection of reasons."""

import pytest

from phsafe.errors import ConfigError, DataError, OutputError, PHSafeError, Reasons


def test_one_reason_or_many():
    assert PHSafeError("a").reasons == ("a",)
    assert PHSafeError(iter(["a", "b"])).reasons == ("a", "b")
    assert str(DataError(["a", "b"])) == "a\nb"


@pytest.mark.parametrize("error", [ConfigError, DataError, OutputError])
def test_every_error_is_a_phsafe_error(error):
    with pytest.raises(PHSafeError):
        raise error("refused")


def test_reasons_of_all_checks_are_raised_together():
    def refuse(*given):
        raise DataError(given)

    reasons = Reasons()
    assert reasons.check(len, [1]) == 1
    assert reasons.check(refuse, "a", "b") is None
    assert reasons.check(refuse, "c") is None
    with pytest.raises(PHSafeError) as caught:
        reasons.settle()
    assert caught.value.reasons == ("a", "b", "c")


def test_no_reasons_raise_nothing():
    reasons = Reasons()
    reasons.check(len, "")
    reasons.settle()


def test_other_errors_pass_through():
    with pytest.raises(ZeroDivisionError):
        Reasons().check(lambda: 1 / 0)
