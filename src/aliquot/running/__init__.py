"""The driver of a run: event -> coordinator -> commands -> site; what becomes of the results; progress and report.

calls.py      the public functions
planning.py   from arguments to a plan: units, stepper, sink
one_run.py    from a plan to an outcome
driver.py     the loop between coordinator, site and results
learned.py    what is kept for the next run
"""
