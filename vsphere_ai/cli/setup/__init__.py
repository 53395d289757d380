"""Commands that set up: a lab, a project, trust, completion, the doctor."""
