"""How the outside reaches the use cases; a surface translates and decides nothing."""
