"""Documents: the forms in which values are printed, saved or sent as JSON, one pydantic model each. Pure."""
