"""Looks at how this Python was built."""

import sysconfig


def is_profiled() -> bool:
    """Returns whether CPython was built with profile-guided optimisation, as far as it says so.

    CPython's own build has the flag of the second compilation, and uses it with `--enable-optimizations`. Debian, which
    runs both compilations by itself, leaves the flag empty.
    """
    arguments, flag = map(sysconfig.get_config_var, ("CONFIG_ARGS", "PGO_PROF_USE_FLAG"))
    return not flag or "--enable-optimizations" in (arguments or "")
