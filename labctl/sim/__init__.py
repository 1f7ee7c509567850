"""Simulated machines: times drawn from a stated model, so that the truth is known.

``spec`` is what a lab file says of a model, ``field`` the random numbers, ``model`` the
draws and the truth, ``clock`` the virtual time. Nothing here knows of targets, and nothing
that is drawn here is a measurement.
"""
