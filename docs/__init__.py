"""The documents, and the code that keeps what they restate equal to the code."""
