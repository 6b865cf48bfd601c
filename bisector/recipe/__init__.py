"""What was asked for: the schema, and YAML with file, line and column in every error."""
