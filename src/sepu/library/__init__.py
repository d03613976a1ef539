"""The colour library: its facts, and the release that is built from them, verified and served."""
