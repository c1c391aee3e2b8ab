"""Stacks: what is deployed and deleted together."""
