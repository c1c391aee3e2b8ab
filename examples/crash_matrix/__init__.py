"""The proof by failure: a target that keeps the truth, and what is killed around it."""
