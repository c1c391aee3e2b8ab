"""The rows of the table, a module for each kind of work."""
