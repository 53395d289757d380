"""One bulk read of vCenter and hosts: what has to be asked, how deeply, and the answers as facts."""
