"""Virtual machines, their states, devices and disks."""
