"""What a step took: seconds of wall and CPU time, bytes at its peak, bytes read and written; and how to limit it.

Nothing is imported here: the process that forks workers takes only what it needs, since its start is part of a run.
"""
