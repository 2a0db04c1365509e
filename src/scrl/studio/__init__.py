"""`scrl studio`: a local server and one page on which rules are changed and plans are seen."""
