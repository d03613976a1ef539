-- Held to the end of the transaction, so that of several servers started together one makes the demo account.
select pg_try_advisory_xact_lock(hashtextextended('sepu.first_account', 0))
