"""One HTTP request on one socket: where it may go, until when, and what is known of it.

It stands on httpcore2, the engine of httpx2, below everything that repeats, redirects,
decodes, remembers cookies or reads the environment: what is not there cannot be left on.
"""
