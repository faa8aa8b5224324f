"""The rules of a run, and nothing else: no SQL, no clock, no threads."""
