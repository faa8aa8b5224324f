"""Crash tests: real processes, real signals, one SQLite file."""
