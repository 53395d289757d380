"""Front of the lab: its process, the HTTPS server, and the way of a request to what answers it."""
