"""One renderer for each kind of part that documents restate from the code."""
