"""The arithmetic of privacy and accuracy: sensitivities and margins of error. It uses no data and draws no noise."""
