"""Secrets and their retrieval, redaction, ownership of files, and the tool's own folders."""
