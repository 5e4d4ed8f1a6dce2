"""Virtual files: read-only views of units, divided for nothing and read only when they are used.

aliquot.open -> opening      what was given: a path, a glob, a list, a range, a sequence
                formats/     how bytes are divided into units, and what a unit is to Python
                storage/     the uncompressed bytes of a file, from any place
                scanning     where each unit begins: boundaries (pure), index, index_cache
                source       file_source, sequences, several, datasets: what holds the units
                virtual_file the view itself; piping, background
"""

from aliquot.virtual_file.datasets import Datasets
from aliquot.virtual_file.formats.format import Format
from aliquot.virtual_file.formats.registry import register_format
from aliquot.virtual_file.opening import open, together
from aliquot.virtual_file.source import ByteRange, RowRange, Source
from aliquot.virtual_file.virtual_file import VirtualFile

__all__ = [
    "ByteRange",
    "Datasets",
    "Format",
    "RowRange",
    "Source",
    "VirtualFile",
    "open",
    "register_format",
    "together",
]
