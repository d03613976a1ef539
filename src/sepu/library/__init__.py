"""Builds, verifies and serves the colour library from its facts."""
