"""Compiles the core, and lists the files of a wheel; pyproject.toml has the rest."""

import os
import re
import sys
import sysconfig
from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

if sys.byteorder != "little":
    sys.exit("sepu: this machine is big-endian; sepu is tested on x86-64 and 64-bit ARM only, which are little-endian")

# One wheel serves CPython 3.11 and later. Without a GIL there is no stable ABI before 3.15, and Cython lacks that one.
LIMITED_API = {} if sysconfig.get_config_var("Py_GIL_DISABLED") else {"Py_LIMITED_API": "0x030B0000"}

PROCESSORS = os.cpu_count() or 1
CORE = ["palette", "names", "index_builder"]
INCLUDED = [str(file) for file in Path("cext").iterdir() if file.suffix in {".h", ".pxi"}]

# Every operation rounds on its own, or instruction sets would give different bits. Nothing reads errno or the
# floating-point flags, and maintaining them prevents vector instructions for square roots and conditions.
COMPILER = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
if "-g" not in os.environ.get("CFLAGS", ""):
    COMPILER.append("-g0")  # Python's own flags may ask for debugging information, a third of the compile time

extensions = [
    Extension(
        f"sepu._{name}",
        [f"cext/_{name}.pyx"],
        include_dirs=["cext"],
        depends=INCLUDED,
        define_macros=[*LIMITED_API.items(), *([("SEPU_BOUNDS", "1")] if name == "index_builder" else [])],
        extra_compile_args=COMPILER,
        py_limited_api=bool(LIMITED_API),
    )
    for name in CORE
]


class BuildExtension(build_ext):
    def get_ext_filename(self, fullname: str) -> str:
        # CPython 3.15 adds the platform to .abi3, which older ones would not find.
        return re.sub(r"\.abi3-[^.]+", ".abi3", super().get_ext_filename(fullname))  # type: ignore[no-untyped-call]


class BuildPython(build_py):
    """Writes the version, with its commit, into the package: importlib.metadata takes longer than `sepu --version`."""

    def run(self) -> None:
        super().run()
        egg_info: Any = self.get_finalized_command("egg_info")
        place = "src" if self.editable_mode else self.build_lib
        Path(place, "sepu", "_version.py").write_text(
            f'"""Written by setup.py."""\n\nversion = "{egg_info.egg_version}"\n', "utf-8"
        )


if __name__ == "__main__":  # not in cythonize's processes, which import this file unless they are forked
    setup(
        package_dir={"": "src"},
        packages=find_packages("src"),
        include_package_data=False,  # these, and not all that MANIFEST.in gives to the sdist
        package_data={
            "sepu": ["py.typed", "*.pyi"],
            "sepu.cli": ["*.json"],
            "sepu.console": ["static/*", "templates/*.html"],
            # a link to data/release: an installed release is next to its reader
            "sepu.library": ["release/*.json", "release/*.bin"],
            "sepu.database": ["sql/**/*.sql"],
        },
        cmdclass={"build_ext": BuildExtension, "build_py": BuildPython},
        ext_modules=cythonize(
            extensions,
            language_level=3,
            build_dir="build",
            nthreads=PROCESSORS,
            # Objects that threads share never change.
            compiler_directives={"freethreading_compatible": True},
        ),
        options={
            "build_ext": {"parallel": str(PROCESSORS)},
            "bdist_wheel": {"py_limited_api": "cp311" if LIMITED_API else ""},
        },
    )
