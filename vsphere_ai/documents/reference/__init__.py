"""Documents of what is looked up: explanations of names, and privileges of an account."""
