"""The physical model of a host: GPUs, NICs, services and boot, shared by the SOAP side and the SSH side of the lab."""
