"""Turns a VMware vSphere environment into a GPU farm for distributed AI training."""

__version__ = "0.1.0"
