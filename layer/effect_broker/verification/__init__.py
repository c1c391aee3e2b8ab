"""Trying a contract out against a live sandbox: what its target proves, and what not."""
