"""What can be made to go wrong in the lab: the rules, when they fire, and what each does."""
