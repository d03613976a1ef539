-- Until the transaction ends.
select set_config('lock_timeout', %(milliseconds)s, true)
