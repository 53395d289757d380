"""Kernel logs of guests and hosts: their lines, the catalogue of XIDs, and the verdict of what they ask for. Pure."""
