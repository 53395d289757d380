"""Rules of the five pillars, one file per pillar: how an environment should be, beyond what makes it work."""
