"""Measures aliquot beside its peers, in one run on one machine: `python -m bench [--quick] [part ...]`."""
