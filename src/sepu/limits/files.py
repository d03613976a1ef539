"""Limits of files that commands read, except palettes and pictures."""

# A file with a key, a receipt or a secret; each is far smaller.
KEY_BYTES = 64 * 1024
