"""Tells PyInstaller, by the entry point `pyinstaller40`, which files a program with sepu needs."""

from pathlib import Path


def hook_directories() -> list[str]:
    """Returns the directory of the hook."""
    return [str(Path(__file__).parent)]
