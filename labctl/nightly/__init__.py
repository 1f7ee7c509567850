"""A night: the lab brought up, measured, compared with its baseline, reported and gated.

``baseline`` is the file that says which run each target is compared with; ``gate`` (pure)
judges a night's numbers against it; ``record`` is what a night keeps of itself, so that it
can be killed and go on; ``night`` walks through one. ``junit`` and ``summary`` word the result.
"""
