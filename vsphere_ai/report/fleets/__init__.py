"""Plans and runs of several vCenters as text and documents. Pure."""
