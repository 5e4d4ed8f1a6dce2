"""The uncompressed content of files, however they are compressed."""

from aliquot.virtual_file.storage.detection import COMPRESSION_SUFFIXES, open_storage
from aliquot.virtual_file.storage.storage import Identity, Storage, write_all

__all__ = ["COMPRESSION_SUFFIXES", "Identity", "Storage", "open_storage", "write_all"]
