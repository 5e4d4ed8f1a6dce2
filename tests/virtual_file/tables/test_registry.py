"""What every format says about itself."""

from __future__ import annotations

import pytest

from aliquot.virtual_file.tables.registry import find_table_class, table_format_by_suffix

LIBRARIES = {
    "root": "uproot",
    "parquet": "pyarrow",
    "feather": "pyarrow",
    "npz": "numpy",
    "hdf5": "h5py",
    "sqlite": "",
    "duckdb": "duckdb",
}


@pytest.mark.parametrize(("name", "library"), LIBRARIES.items())
def test_a_format_says_what_must_be_imported_and_what_lies_beside_its_files(name: str, library: str) -> None:
    """Only databases keep a part of their content elsewhere."""
    found = find_table_class(name)
    assert found.library == library
    assert bool(found.companions("a")) == (name in ("sqlite", "duckdb"))
    for suffix in found.suffixes:
        assert table_format_by_suffix(f"none{suffix}") == name
