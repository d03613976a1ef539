select audited_at, counters, results, differences from sepu.audit_run order by audited_at desc limit 1
