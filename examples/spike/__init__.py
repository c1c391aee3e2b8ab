"""One charge through four kinds of record keeping, and a crash after the target's commit.

`python -m examples.spike` plays the same cases against the same target through each
system, and prints what the target charged and what each system says of it.
"""
