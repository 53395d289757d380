"""Rules of the five pillars, one file per pillar: how a farm should be, beyond what makes it work."""
