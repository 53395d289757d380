"""Records of runs on this machine: journal, history, locks, markers of started SSH services."""
