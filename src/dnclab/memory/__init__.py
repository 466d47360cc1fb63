"""The paper's memory unit. Knows no controller, task, file or optimiser."""
