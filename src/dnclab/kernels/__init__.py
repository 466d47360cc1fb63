"""Other ways to compute the same sequence, faster. Arrays in, arrays out."""
