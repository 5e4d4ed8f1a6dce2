"""Worker processes and how they are spoken with.

    parent                          nursery                      worker
    nursery.py    -- exec once -->  nursery_main.py  -- fork --> main.py       the loop: claim a step, run it, report
    copied.py     -- or a copy -->
    channel.py    <------------- messages and file descriptors ------------>   channel.py
    cell.py       <------------- a few numbers in shared memory ----------->   cell.py      where a span ends

A worker imports as little as it can: how fast it starts is part of every run. So nothing here imports msgspec or
numpy, nor anything of aliquot that does.
"""

# Whether this process is a worker: set in each of them.
inside_worker = False
