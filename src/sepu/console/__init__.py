"""Serves read-only pages for operators, as one Falcon application."""
