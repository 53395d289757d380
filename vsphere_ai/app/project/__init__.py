"""What surrounds the work: first files, trust, the doctor, examples, schemas."""
