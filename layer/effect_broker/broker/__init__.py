"""The use cases: one a module, each over ports only."""
