"""Mutants of correct kernels: `source.py` and `operators_*.py` make them, `outcomes.py` says what they are, `checked.py` what a checked run says of them."""
