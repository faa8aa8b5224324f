"""One behavioural suite over every store."""
