"""A night: the lab brought up, measured, compared with its baseline, reported and gated.

``asked`` is what a night is to do; ``night`` walks through it. ``record`` is what it keeps of
itself, so that it can be killed and go on; ``kept`` are all nights of a directory. ``baseline``
is the file that says which run each target is compared with, ``compared`` the runs as one
view, ``gate`` (pure) the judgement. ``words``, ``junit`` and ``forms`` are what is shown.
"""
