"""What a machine is like while it is measured: facts, and checks for noise.

Results and verdicts are not computed here; ``labctl.stats`` does that from the journal.
"""
