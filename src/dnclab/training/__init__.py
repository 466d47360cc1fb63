"""Training: what writes a run folder and goes on with one."""
