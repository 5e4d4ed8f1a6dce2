from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from aliquot.coffea.entries import EntriesOf
from aliquot.coffea.fileset import FileOfSet


class OpenTree:
    """A file that stays open, with its tree and what its schema made of it.

    For a NanoAOD tree of 1500 branches to read the tree takes more than a second, and to build its schema a tenth: that
    is paid once for each file and worker here, not for every chunk.
    """

    def __init__(self, part: EntriesOf, schema_class: Any, uproot_options: dict[str, Any]) -> None:
        import uproot

        self.number = part.number
        self._schema_class = schema_class
        self._schema: Any = None
        self._read_bytes = 0
        part.tree.check_file()
        self._directory = uproot.open({part.tree.path: None}, **uproot_options)
        try:
            part.tree.check_entries(int(self._directory[part.tree.name].num_entries))
        except BaseException:
            self.close()
            raise

    def events(self, part: EntriesOf, file: FileOfSet, log: list[Any], iteritems_options: dict[str, Any]) -> Any:
        """As Runner makes them: virtual arrays, read when they are used."""
        import uuid

        from coffea.nanoevents import NanoEventsFactory

        file_uuid = self._directory.file.fUUID
        metadata = {
            "dataset": file.dataset,
            "filename": part.tree.path,
            "treename": part.tree.name,
            "entrystart": part.start,
            "entrystop": part.stop,
            "fileuuid": str(uuid.UUID(bytes=file_uuid)) if file_uuid else "",
            **file.metadata,
        }
        is_known = self._schema is not None
        factory = NanoEventsFactory.from_root(
            self._directory,
            treepath=part.tree.name,
            schemaclass=self._schema_again if is_known else self._schema_class,
            metadata=metadata,
            access_log=log,
            mode="virtual",
            entry_start=part.start,
            entry_stop=part.stop,
            iteritems_options={"filter_name": _no_branch} if is_known else iteritems_options,
            preload=None if file.preload is None else frozenset(file.preload),
        )
        if not is_known and "_form" in vars(factory._schema):
            self._schema = factory._schema
        return factory.events()

    def _schema_again(self, base_form: dict[str, Any]) -> Any:
        """The schema of this tree, with the metadata of other entries."""
        schema = copy.copy(self._schema)
        parameters = {**schema._form["parameters"], "metadata": base_form["parameters"]["metadata"]}
        schema._form = {**schema._form, "parameters": parameters}
        return schema

    def spoiled_entries(self, part: EntriesOf, branches: Iterable[str]) -> tuple[str, int, int] | None:
        """The first basket of these branches that cannot be read: its branch and its entries; None: nobody can tell."""
        for name in branches:
            try:
                branch = self._directory[part.tree.name][name]
                baskets = [branch.basket_entry_start_stop(number) for number in range(branch.num_baskets)]
            except Exception:
                return None  # an RNTuple, or the tree itself cannot be read any more
            for start, stop in baskets:
                if start < part.stop and part.start < stop:
                    try:
                        branch.array(entry_start=start, entry_stop=stop, array_cache=None)
                    except (MemoryError, OSError):
                        return None  # it may well be read another time
                    except Exception:
                        return name, int(start), int(stop)
        return None

    def newly_read_bytes(self) -> int:
        """Since this was last asked."""
        before, self._read_bytes = self._read_bytes, int(self._directory.file.source.num_requested_bytes)
        return self._read_bytes - before

    def forget_arrays(self) -> None:
        """Entries that were processed are not read again."""
        cache = self._directory.file.array_cache
        if cache is not None:
            cache.clear()

    def close(self) -> None:
        """Let go of the file."""
        self._directory.close()


def _no_branch(name: str) -> bool:
    return False


def columns_in(log: Iterable[Any]) -> set[str]:
    """As the metrics of Runner call them."""
    from coffea.nanoevents.util import key_to_tuple

    return {f"{accessed.branch}-{key_to_tuple(accessed.buffer_key)[3]}" for accessed in log}
