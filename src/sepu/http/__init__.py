"""Speaks HTTP: headers, status codes and the order of a request's checks. Knows no SQL and no colour maths.

`request_checks` decides without I/O, `app` routes with Falcon, and `responder` asks the ledger and answers.
"""
