"""How far releases are from the truth, where the truth is public: many releases in memory, with their errors."""

from phsafe.appraisal.run import Accuracy, accuracy

__all__ = ["Accuracy", "accuracy"]
