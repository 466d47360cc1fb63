"""Training: configuration, loop, checkpoints, evaluation."""
