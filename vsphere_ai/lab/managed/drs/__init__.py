"""DRS and Storage DRS at work: evacuations, advice, power-on of many."""
