"""What users of the library may rely on, tested through its public API over every store."""
