"""One program for each system: it makes one charge, as that system's users write it.

A program is started, may be killed, and is started again. It prints one line of JSON:
what its caller is told, and what the system has on record.
"""
