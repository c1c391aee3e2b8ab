"""The two stores behind `Ledger` and `Registry`: PostgreSQL, and memory for tests."""
