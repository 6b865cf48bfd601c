"""Tell people: text tables, the git bisect log, JSON."""
