"""Looks at a deployment from where it runs, and says what is wrong and what to do."""
