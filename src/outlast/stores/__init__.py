"""Where runs are kept: one protocol, one behaviour, several databases."""
