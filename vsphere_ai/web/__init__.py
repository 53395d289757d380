"""The pages of `serve`: a read-only server on loopback for browsers and Prometheus, and metrics as text.

Needs the extra ``web``.
"""
