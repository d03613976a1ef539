-- name: use_one_connection
-- Until the transaction ends. On Citus, a transaction that reads accounts on all nodes can change a table that is on all
-- nodes only over one connection a node. Without Citus the setting does nothing.
select set_config('citus.multi_shard_modify_mode', 'sequential', true)

-- name: limit_statements
-- Until the transaction ends.
select set_config('statement_timeout', %(milliseconds)s, true)

-- name: begin_session
-- What a session of the service sends first: what keys' tags are made with, and whether earlier statements of this role
-- have waited for a synchronous standby for so many milliseconds.
select sepu.key_secret(), exists (
    select from pg_stat_activity
     where usename = current_user and wait_event = 'SyncRep' and query_start < now() - %s * interval '1 ms')

-- name: read_server
select current_setting('server_version'), pg_is_in_recovery(), pg_database_size(current_database())
