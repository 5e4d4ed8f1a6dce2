from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from aliquot.virtual_file.tables.root.entries import BROKEN, FLAT, KEPT_BYTES, NOT_THE_FILE, OVERLAP, check_flat
from aliquot.virtual_file.tables.table import BadRows, check_columns
from aliquot.virtual_file.tables.wording import one_line


class NtupleEntries:
    """The wanted fields of an RNTuple.

    Its own ``arrays`` decodes one cluster more than it needs wherever a range ends with a cluster.
    """

    def __init__(self, ntuple: Any, wanted: Sequence[str] | None, form: str) -> None:
        from uproot.behaviors.RNTuple import _recursive_find

        self.units = int(ntuple.num_entries)
        self._ntuple = ntuple
        self._flat = form in FLAT
        fields = {field.name: field for field in ntuple.fields}
        available = list(fields) if wanted is None else list(ntuple.keys())
        names = check_columns(wanted, available)
        # By a function: a name can have what means something else in a pattern.
        chosen = set(names)
        self._form, _ = ntuple.to_akform(filter_field=lambda field: field.path in chosen)
        self.types = {name: str(ntuple[name].typename or _type_of(self._form, name)) for name in names}
        for name in self._form.fields:
            check_flat(name, _is_flat_form(self._form.content(name)), form)
        # A part of a field comes within that field.
        self._names = list(dict.fromkeys(name if name in fields else name.partition(".")[0] for name in names))
        keys: list[str] = []
        _recursive_find(self._form, keys)
        self._keys = {key: int(key.split("-")[1]) for key in keys if "column" in key}
        clusters = ntuple.cluster_summaries
        self._starts: list[int] = [int(cluster.num_first_entry) for cluster in clusters]
        self._stops: list[int] = [int(cluster.num_first_entry + cluster.num_entries) for cluster in clusters]
        self._kept: tuple[int, int, Any] = (0, 0, None)  # entries, and what they are

    def ends(self) -> list[int]:
        """Where clusters end."""
        return [stop for start, stop in zip(self._starts, self._stops, strict=True) if stop > start]

    def columns(self, start: int, stop: int) -> dict[str, Any]:
        """From the clusters that hold them, and from what was decoded before."""
        parts = []
        kept_start, kept_stop, kept = self._kept
        at = start
        if kept_start <= start < kept_stop:
            at = min(stop, kept_stop)
            parts.append(kept[start - kept_start : at - kept_start])
        if at < stop or not parts:
            clusters = self._clusters(at, stop)
            first = self._starts[clusters.start] if clusters else at
            decoded = self._decoded(clusters, at, stop)
            parts.append(decoded[at - first : stop - first])
            last = self._stops[clusters[-1]] if clusters else stop
            keep = last > stop and decoded.nbytes <= KEPT_BYTES
            self._kept = (first, last, decoded) if keep else (0, 0, None)
        if len(parts) > 1:
            import awkward

            together = awkward.concatenate(parts)
        else:
            together = parts[0]
        columns = {name: together[name] for name in self._names}
        return {name: _to_numpy(array) for name, array in columns.items()} if self._flat else columns

    def places(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Of the pages of all wanted fields."""
        for cluster in self._clusters(start, stop):
            for column in set(self._keys.values()):
                for page in self._pages(cluster, column):
                    yield int(page.locator.offset), int(page.locator.offset + page.locator.num_bytes)

    def _clusters(self, start: int, stop: int) -> range:
        if start >= stop:
            return range(0)
        return range(bisect_right(self._starts, start) - 1, bisect_left(self._starts, stop))

    def _decoded(self, clusters: range, start: int, stop: int) -> Any:
        try:
            return self._assembled(clusters)
        except NOT_THE_FILE:
            raise
        except Exception as error:
            for cluster in clusters:
                damage = self._damage(cluster)
                if damage is not None:
                    raise BadRows(damage[0], self._starts[cluster], self._stops[cluster], damage[1], BROKEN) from error
            problem = f"has clusters that cannot be decoded ({one_line(error)})"  # together, and each of them alone can
            raise BadRows(problem, start, stop, advice=BROKEN, is_certain=False) from error

    def _assembled(self, clusters: range) -> Any:
        import awkward
        from uproot.behaviors.RNTuple import _fill_container_dict
        from uproot.const import rntuple_index_types

        buffers: dict[str, Any] = {}
        for key, column in self._keys.items():
            record = self._ntuple.column_records[column]
            first = self._starts[clusters.start] if clusters else 0
            content = self._ntuple.read_cluster_range(
                column,
                clusters.start,
                clusters.stop,
                missing_element_padding=max(record.first_element_index - first, 0),
            )
            if record.type in rntuple_index_types and (content[1:] < content[:-1]).any():
                raise ValueError(OVERLAP)
            _fill_container_dict(buffers, content, key, record.type, None)
        entries = sum(self._stops[cluster] - self._starts[cluster] for cluster in clusters)
        return awkward.from_buffers(self._form, entries, buffers)

    def _damage(self, cluster: int) -> tuple[str, int | None] | None:
        """What is wrong with a cluster, and at which byte; None if nothing is."""
        import numpy

        names = self._ntuple.field_records
        for column in self._keys.values():
            metadata = self._ntuple.get_field_metadata(column)
            for number, page in enumerate(self._pages(cluster, column)):
                try:
                    space = numpy.empty(page.num_elements, metadata.dtype_result)
                    self._ntuple.read_page(space, cluster, column, number, metadata)
                except MemoryError:
                    raise
                except Exception as error:
                    field = names[self._ntuple.column_records[column].field_id].field_name
                    return f"has a page of field {field!r} that cannot be decoded ({one_line(error)})", int(
                        page.locator.offset
                    )
        try:
            self._assembled(range(cluster, cluster + 1))
        except MemoryError:
            raise
        except Exception as error:
            return f"has a cluster that cannot be decoded ({one_line(error)})", None
        return None

    def _pages(self, cluster: int, column: int) -> Sequence[Any]:
        links = self._ntuple.page_link_list[cluster]
        return links[column].pages if column < len(links) else ()


def _is_flat_form(form: Any) -> bool:
    if form.parameter("__array__") == "string":
        return True
    return not form.is_record and not form.is_union and bool(form.purelist_isregular)


def _type_of(form: Any, path: str) -> str:
    for name in path.split("."):
        while not form.is_record:
            form = form.content
        form = form.content(name)
    return str(form.type)


def _to_numpy(array: Any) -> Any:
    import awkward
    import numpy

    if awkward.parameters(array).get("__array__") == "string":
        return numpy.array(array.to_list(), dtype=object)
    return awkward.to_numpy(array)
