"""Guests of VMs that the tool makes: their network file and what cloud-init is given, as text. Pure."""
