-- Held until the transaction ends, so that two commands do not give one external id to two accounts.
select pg_advisory_xact_lock(hashtextextended('sepu.external_id', 0))
