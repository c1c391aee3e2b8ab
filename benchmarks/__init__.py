"""What the broker costs, beside what nobody can do without: `python -m benchmarks`."""
