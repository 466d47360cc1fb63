"""The paper's tasks as sources of data, one file each. They know no model."""
