"""Outlast under the frameworks that agents are written with: a folder for each, and none is imported by the rest."""
