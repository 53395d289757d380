"""Builds small estates as plain values, for tests of the pure rooms."""
