"""Reports of plans, runs and certificates: one model of their content, written as HTML, Markdown, JUnit and SARIF."""
