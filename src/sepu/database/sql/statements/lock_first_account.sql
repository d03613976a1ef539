-- Held until the transaction ends, so that only one of several servers started together makes the demo account.
select pg_try_advisory_xact_lock(hashtextextended('sepu.first_account', 0))
