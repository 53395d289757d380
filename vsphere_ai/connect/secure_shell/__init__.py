"""SSH to hosts and guests: known keys only, one login, commands within deadlines."""
