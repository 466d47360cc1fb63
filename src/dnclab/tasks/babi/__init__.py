"""bAbI: the 20 question-answering tasks, read from the real files or generated."""
