"""Align reads with mappy, and write SAM: python examples/align_with_mappy.py REFERENCE READS > OUT.sam."""

from __future__ import annotations

import sys

import mappy


def main() -> None:
    """Align each read by itself."""
    reference, reads = sys.argv[1:]
    aligner = mappy.Aligner(reference, preset="sr")
    print("@HD\tVN:1.6\tSO:unsorted")
    for name in aligner.seq_names:
        print(f"@SQ\tSN:{name}\tLN:{len(aligner.seq(name))}")
    for name, bases, qualities in mappy.fastx_read(reads):
        hit = next(aligner.map(bases), None)
        if hit is None:
            print(name, 4, "*", 0, 0, "*", "*", 0, 0, bases, qualities, sep="\t")
            continue
        flag, sequence, quality = 0, bases, qualities
        if hit.strand < 0:
            flag, sequence, quality = 16, mappy.revcomp(bases), qualities[::-1]
        ends = (hit.q_st, len(bases) - hit.q_en)
        first, last = (f"{clipped}S" if clipped else "" for clipped in (ends if hit.strand > 0 else ends[::-1]))
        cigar = f"{first}{hit.cigar_str}{last}"
        print(name, flag, hit.ctg, hit.r_st + 1, hit.mapq, cigar, "*", 0, 0, sequence, quality, sep="\t")


if __name__ == "__main__":
    main()
