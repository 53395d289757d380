"""Training jobs: started on the nodes, followed, stopped, exported."""
