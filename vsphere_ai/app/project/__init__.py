"""Projects: first files, trust in servers, the doctor, examples, schemas, explanations."""
