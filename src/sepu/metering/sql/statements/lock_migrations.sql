-- Held to the end of the transaction, so that of several servers started together one migrates and the rest find it done.
-- Citus changes tables and functions in one transaction only over one connection a node; elsewhere nobody reads that.
select pg_advisory_xact_lock(hashtextextended('sepu.migration', 0)),
       set_config('citus.multi_shard_modify_mode', 'sequential', true)
