"""Health, launches, benchmarks, assessments and certificates as text and JSON. Pure."""
