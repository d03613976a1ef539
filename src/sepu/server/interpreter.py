"""Checks how this Python was built."""

import sysconfig


def is_profiled() -> bool:
    """Returns whether CPython was built with profile-guided optimisation, as far as this is recorded.

    CPython's own build always records the flag of the second compilation, but uses it only with
    `--enable-optimizations`. Debian runs both compilations itself and leaves the flag empty.
    """
    arguments, flag = map(sysconfig.get_config_var, ("CONFIG_ARGS", "PGO_PROF_USE_FLAG"))
    return not flag or "--enable-optimizations" in (arguments or "")
