"""YAML with places: text to nodes, includes and merge keys, values checked against models. Pure."""
