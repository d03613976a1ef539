-- name: limit_statements
-- Until the transaction ends.
select set_config('statement_timeout', %(milliseconds)s, true)
