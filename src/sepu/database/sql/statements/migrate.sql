-- name: lock_migrations
-- Held until the transaction ends. If several servers start together, one migrates, and the others find it done. Citus
-- changes tables and functions in one transaction only over one connection for each node; without Citus this setting
-- does nothing. Constraints contain backslashes, whose meaning a role's or a database's setting could change.
select pg_advisory_xact_lock(hashtext('sepu.migration'), 0),
       set_config('citus.multi_shard_modify_mode', 'sequential', true),
       set_config('standard_conforming_strings', 'on', true)

-- name: limit_locks
-- Until the transaction ends.
select set_config('lock_timeout', %(milliseconds)s, true)

-- name: list_lock_holders
-- Other transactions that lock the ledger's tables or migrate. The start is null if this role may not see it.
select distinct a.pid, l.virtualtransaction, a.usename::text, a.application_name,
       date_trunc('second', a.xact_start)::text as since
  from pg_locks l
  join pg_stat_activity a on a.pid = l.pid
  left join pg_class c on c.oid = l.relation
 where l.granted and a.pid <> pg_backend_pid() and a.datname = current_database()
   and (c.relnamespace = to_regnamespace('sepu')
        or l.locktype = 'advisory' and l.objsubid = 2 and l.classid = hashtext('sepu.migration')::oid)
 order by a.pid

-- name: create_migration_table
create schema if not exists sepu;
create table if not exists sepu.migration (
    name       text        not null,
    sha256     text        not null,
    applied_at timestamptz not null default now(),
    constraint migration_pkey primary key (name),
    constraint migration_sha256_form check (sha256 ~ '^[0-9a-f]{64}$')
)

-- name: has_migrations
select to_regclass('sepu.migration') is not null

-- name: read_migrations
select name, sha256 from sepu.migration

-- name: record_migration
insert into sepu.migration (name, sha256) values (%(name)s, %(sha256)s)
on conflict (name) do update set sha256 = excluded.sha256, applied_at = excluded.applied_at
