"""Files of ROOT.

table      a tree or an RNTuple as a table
tree       the branches of a tree as uproot makes them out: any tree
keys       which bytes of a file a tree was written as
layout     where a plain tree keeps its baskets, found in a fraction of the time
finding    both together, and what is kept of it
plain      the branches of a plain tree
blocks     how their bytes are decompressed
baskets    what both kinds of branches have in common
ntuple     the fields of an RNTuple
entries    what the table asks of all of them
"""
