from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits data that may be written")

# A limit holds for a whole process, so this has one of its own.
_WITHIN = """
import json, mmap, os, resource
from aliquot.virtual_file.storage.room import without_data_limit
MB = 1 << 20

def is_refused(megabytes):
    try:
        bytearray(megabytes * MB)
    except MemoryError:
        return True
    return False

def asked_by_child():
    child = os.fork()
    if not child:
        os._exit(2 * is_refused(10) + is_refused(600))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

with open("/proc/self/statm") as file:
    data_bytes = int(file.read().split()[5]) * resource.getpagesize()
limit = (data_bytes + 200 * MB, resource.RLIM_INFINITY)
resource.setrlimit(resource.RLIMIT_DATA, limit)
told = [is_refused(600)]
with without_data_limit():
    reserved = mmap.mmap(-1, 1000 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    told += [is_refused(600), asked_by_child()]
print(json.dumps([*told, is_refused(10), is_refused(600)]))
"""


def test_what_was_reserved_without_the_limit_leaves_as_much_room_as_before() -> None:
    """Also to a process that is forked meanwhile by another thread, which is not within, and has the limit."""
    ran = subprocess.run([sys.executable, "-c", _WITHIN], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    refused_before, refused_within, refused_to_child, *refused_behind = json.loads(ran.stdout)
    assert refused_before
    assert not refused_within
    assert refused_to_child == 1, "not the 10 MB, but the 600 MB"
    assert refused_behind == [False, True]
