-- Held until the transaction ends, so that one of several servers started together migrates, and the others find it done.
-- Citus changes tables and functions in one transaction only over one connection a node; without Citus the setting does
-- nothing.
select pg_advisory_xact_lock(hashtextextended('sepu.migration', 0)),
       set_config('citus.multi_shard_modify_mode', 'sequential', true)
