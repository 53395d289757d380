"""The compatibility rules, one file per subject; each class in them is a rule."""
