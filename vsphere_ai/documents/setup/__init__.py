"""Documents of what sets up: examples, schemas, files of a project, certificates, keys that are trusted. Pure."""
