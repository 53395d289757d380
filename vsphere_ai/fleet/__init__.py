"""Several vCenters as one fleet: plans, shards, leases, workers, coordinator."""
