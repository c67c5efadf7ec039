"""Programs with a declared and independently proven truth, held against the tape."""
