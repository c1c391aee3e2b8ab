"""Constructs: one capability each."""
