-- Held to the end of the transaction, so that of several servers started together one migrates and the rest find it done.
select pg_advisory_xact_lock(hashtextextended('sepu.migration', 0))
