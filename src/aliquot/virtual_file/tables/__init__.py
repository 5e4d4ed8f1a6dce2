"""Tables in files: rows that are read by columns.

table       what a format is: a small class for one table of one file
root, parquet, feather, npz, hdf5, sqlite, duckdb     the formats
forms       what a batch is to the user's function: awkward, numpy, pandas, arrow, polars, records
looking     what is known of a table before its rows are read, and remembered
source      any number of tables as one stream of units
registry    formats by name and by file
"""
