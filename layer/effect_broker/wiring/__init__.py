"""The composition root: which real thing stands behind each port; nothing is decided.

A process imports the modules of the parts that it has, so that no Lambda pays at its cold
start for another's libraries.
"""
