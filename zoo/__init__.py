"""Training scripts, broken and healthy, and what the rules should find in each (see README.md)."""
