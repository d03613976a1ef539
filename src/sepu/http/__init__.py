"""Speaks HTTP: headers, status codes and the order in which a request is decided on. Knows no SQL and no colour maths.

`request_checks` decides without I/O, `app` routes by Falcon, `responder` asks the ledger and answers.
"""
