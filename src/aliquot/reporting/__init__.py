"""The story of a run, from the events in its journal, and how it is shown.

story.py     events in, numbers out: what happened, and why it was not closer to ideal
lanes.py     what each worker did, and where its time went
losses.py    the sentences about time that did not go into steps
thinning.py  a hundred thousand reports as something that can be drawn
about.py     what a run is called, and what it runs
reading.py   both of these, from a run directory
text.py      lines for a terminal
html.py      one page that needs nothing else: charts.py draws it, svg.py and axes.py are its pens
png.py       the same charts as one picture

No layer below knows of this one: a run is told from its journal alone, also while it goes on, also after it was killed.
"""
