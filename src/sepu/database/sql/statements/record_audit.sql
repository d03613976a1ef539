insert into sepu.audit_run (audited_at, counters, results, differences)
values (now(), %(counters)s, %(results)s, %(differences)s)
