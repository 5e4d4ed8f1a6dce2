from __future__ import annotations

import subprocess
import sys
import textwrap

# In a process of its own: the choice holds for all of it.
_FAULTS = textwrap.dedent(
    """
    import resource
    from aliquot.measuring.allocator import give_freed_memory_back, keep_freed_memory
    from aliquot.measuring.peak import PeakMeter

    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(5):
            [bytearray(b"x") * (20 << 20) for _ in range(4)]
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    usual = faults()
    assert keep_freed_memory()
    faults()
    kept = faults()
    held = PeakMeter().resident_bytes()
    give_freed_memory_back()
    given = held - PeakMeter().resident_bytes()
    print(usual, kept, faults(), given)
    """
)


def test_pages_are_kept_from_one_piece_to_the_next_until_they_are_given_back() -> None:
    """So that the kernel need not make and clear them anew."""
    done = subprocess.run([sys.executable, "-c", _FAULTS], capture_output=True, text=True, check=True)
    usual, kept, after, given_bytes = map(int, done.stdout.split())
    assert kept < usual / 10
    assert after > usual / 2
    assert given_bytes > 30 << 20
