"""Checks the host that a request names."""

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address

# More than the host names that a server has; clients make up the others.
_KNOWN_HOSTS = 100
# uri-host [ ":" port ] of RFC 9110, 7.2: RFC 3986, 3.2.2 and 3.2.3. A name may be empty, and so may a port.
_HOST = re.compile(
    r"(?:\[(?:(?P<ipv6>[0-9A-Fa-f:.]+)|v[0-9A-Fa-f]+\.[\w.~!$&'()*+,;=:-]+)\]|(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)"
    r"(?::[0-9]*)?",
    re.ASCII,
)


@lru_cache(_KNOWN_HOSTS)
def is_host(text: str) -> bool:
    """Returns whether a text is a host, with or without a port."""
    found = _HOST.fullmatch(text)
    if found is None:
        return False
    try:
        return found["ipv6"] is None or bool(IPv6Address(found["ipv6"]))
    except AddressValueError:
        return False
