"""The accuracy study: repeat a release of public data in memory many times and measure its errors."""

from phsafe.accuracy_study.study import Accuracy, accuracy

__all__ = ["Accuracy", "accuracy"]
