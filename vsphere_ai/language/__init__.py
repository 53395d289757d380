"""YAML documents, playbooks, inventories, patterns and selections, with file, line and column for errors. Pure."""
