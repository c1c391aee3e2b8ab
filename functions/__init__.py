"""The Lambda entry points: event in, one broker call, answer out."""
