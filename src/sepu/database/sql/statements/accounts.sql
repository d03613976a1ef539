-- name: list_accounts
-- The next accounts in the order of the primary key, after a given one, with this month's usage. A filter that is null
-- lets all pass.
select a.account_id, a.external_id, a.name,
       case when a.status = 'active' and a.expires_at <= now() then 'expired' else a.status end as status,
       a.created_at, a.expires_at, a.plan_id,
       coalesce(json_object_agg(l.meter, l.units + coalesce(u.granted, 0))
                    filter (where l.meter is not null), '{}') as limits,
       p.requests_per_minute,
       coalesce(json_object_agg(u.meter, u.committed) filter (where u.meter is not null), '{}') as committed
  from sepu.account a
  join sepu.plan p on p.plan_id = a.plan_id
  left join sepu.plan_limit l on l.plan_id = a.plan_id
  left join sepu.usage u on u.account_id = a.account_id and u.meter = l.meter
        and u.period = to_char(now() at time zone 'UTC', 'YYYY-MM')
 where a.account_id > %(after)s
   and (%(account_id)s::text is null or a.account_id = %(account_id)s)
   and (%(plan_id)s::text is null or a.plan_id = %(plan_id)s)
   and (%(status)s::text is null
        or case when a.status = 'active' and a.expires_at <= now() then 'expired' else a.status end = %(status)s)
   and (%(search)s::text is null
        or position(lower(%(search)s) in lower(concat_ws(' ', a.account_id, a.external_id, a.name))) > 0)
 group by a.account_id, a.external_id, a.name, a.status, a.created_at, a.expires_at, a.plan_id, p.requests_per_minute
 order by a.account_id
 limit %(limit)s

-- name: oldest_account
select account_id from sepu.account order by created_at, account_id limit 1

-- name: lock_first_account
-- Held until the transaction ends, so that only one of several servers started together makes the demo account.
select pg_try_advisory_xact_lock(hashtextextended('sepu.first_account', 0))

-- name: create_account
insert into sepu.account (account_id, plan_id, name, external_id, expires_at)
values (%(account_id)s, %(plan_id)s, %(name)s, %(external_id)s, %(expires_at)s)

-- name: set_account_names
-- What is null stays; what is empty is taken away.
update sepu.account
   set name = nullif(coalesce(%(name)s, name), ''), external_id = nullif(coalesce(%(external_id)s, external_id), '')
 where account_id = %(account_id)s

-- name: set_account_expiry
update sepu.account set expires_at = %(expires_at)s where account_id = %(account_id)s

-- name: set_account_status
update sepu.account set status = %(status)s where account_id = %(account_id)s

-- name: move_account
update sepu.account set plan_id = %(plan_id)s where account_id = %(account_id)s
