"""HTTP: headers, status codes and the order in which a request is judged. Knows no SQL and no colour maths.

`endpoints` decides without I/O; `asgi` and `wsgi` carry its decisions over Falcon.
"""
