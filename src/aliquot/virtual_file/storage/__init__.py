"""The uncompressed content of files, however they are compressed."""

from aliquot.virtual_file.storage.detection import compression_by_name, open_storage
from aliquot.virtual_file.storage.storage import Identity, Storage, write_all

__all__ = ["Identity", "Storage", "compression_by_name", "open_storage", "write_all"]
