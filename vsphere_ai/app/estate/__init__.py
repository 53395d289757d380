"""What a vCenter has, and what is wanted of it: sessions, reading, showing, checking."""
