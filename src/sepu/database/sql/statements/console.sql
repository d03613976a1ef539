-- name: read_server
select current_setting('server_version') as version, pg_is_in_recovery() as is_standby,
       pg_database_size(current_database()) as octets

-- name: limit_statement
-- Until the transaction ends, or its savepoint is rolled back.
select set_config('statement_timeout', %(milliseconds)s, true)
