"""Adds the release, the modules that are imported by name or by compiled code, and the version."""

from PyInstaller.utils.hooks import collect_data_files, collect_submodules, copy_metadata

datas = [*collect_data_files("sepu"), *copy_metadata("sepu")]
hiddenimports = [
    *collect_submodules("sepu.library"),
    *("sepu._index_builder", "sepu._names", "sepu._palette", "sepu.labels"),
]
