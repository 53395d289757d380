"""Values that outlive a command: of runs, of what they have out of service, of assessments. Pure."""
