"""A payment service with an authoritative charges table, and faults on request.

The service never guesses what a caller meant and never hides what it did: each POST that
commits is one row, and each request it read is one row too. Both are read under /control.
Charges, key records, settings and the requests seen survive the process; queued faults
and held requests belong to it and die with it.

Standard library only, so that it starts in a fraction of a second beside anything.
"""
