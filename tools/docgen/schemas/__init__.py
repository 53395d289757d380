"""JSON Schemas of the files and documents of the tool, generated from its models."""
