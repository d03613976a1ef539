-- name: matching_accounts
-- The accounts that pass the filters, and the columns to sort by. A null filter lets all pass, but no erased accounts,
-- unless one is asked for by its id. Other statements
-- select some of the columns, and Postgres leaves out the joins that they do not need.
select a.account_id, a.external_id, a.name, a.status, a.created_at, a.expires_at, a.plan_id,
       k.used_until, coalesce(u.committed, 0) as used, coalesce(u.committed, 0) - coalesce(b.committed, 0) as change,
       (coalesce(u.committed, 0)::float8 + coalesce(u.reserved, 0)) / greatest(l.units::bigint + coalesce(u.granted, 0), 1) as share
  from sepu.account_now a
  left join sepu.plan_limit l on l.plan_id = a.plan_id and l.meter = %(meter)s
  left join sepu.usage u on u.account_id = a.account_id and u.meter = %(meter)s and u.period = %(this)s
  left join sepu.usage b on b.account_id = a.account_id and b.meter = %(meter)s and b.period = %(last)s
  left join (select account_id, max(used_until) as used_until from sepu.api_key group by account_id) k
         on k.account_id = a.account_id
 where (%(account_id)s::text is null or a.account_id = %(account_id)s)
   and (%(plan_id)s::text is null or a.plan_id = %(plan_id)s)
   and (a.status = %(status)s
        or %(status)s::text is null and (a.status <> 'erased' or %(account_id)s::text is not null))
   and (%(search)s::text is null
        or position(lower(%(search)s) in lower(concat_ws(' ', a.account_id, a.external_id, a.name))) > 0
        or a.account_id in (select account_id from sepu.api_key
                             where external_id = %(search)s or position(lower(%(search)s) in key_id) > 0))
   and (%(ends_within)s::interval is null or a.status = 'active' and a.expires_at <= now() + %(ends_within)s)
   {quiet}

-- name: quiet_accounts
-- Kept separate: Postgres plans this as a join only when it is unconditional. The offset is an optimisation fence:
-- without it, Postgres looks for a page in the order of accounts, and reads them all by an index if few are quiet.
and exists (select from sepu.usage q
             where q.account_id = a.account_id and q.period = %(last)s and q.committed > 0)
and not exists (select from sepu.usage q
                 where q.account_id = a.account_id and q.period = %(this)s and q.committed > 0)
offset 0

-- name: list_accounts
-- Their usage in this month and the month before. Each part names the account, so that Citus asks only its worker.
with listed as (
    select account_id, {key} as key
      from ({matching}) m
     order by 2 {direction} nulls last, 1
     limit %(limit)s offset %(skip)s
)
select a.account_id, a.external_id, a.name, a.status, a.created_at, a.expires_at, a.plan_id,
       json_object_agg(l.meter, l.units::bigint + coalesce(u.granted, 0)) as limits,
       p.requests_per_minute,
       coalesce(json_object_agg(u.meter, u.committed) filter (where u.meter is not null), '{{}}') as committed,
       coalesce(json_object_agg(b.meter, b.committed) filter (where b.meter is not null), '{{}}') as last_month,
       (select (max(k.used_until) at time zone 'UTC' - interval '1 day')::date
          from sepu.api_key k
         where k.account_id = a.account_id
           and (%(account_id)s::text is null or k.account_id = %(account_id)s)) as last_used_on
  from listed o
  join sepu.account_now a on a.account_id = o.account_id
  join sepu.plan p on p.plan_id = a.plan_id
  join sepu.plan_limit l on l.plan_id = a.plan_id
  left join sepu.usage u on u.account_id = a.account_id and u.meter = l.meter and u.period = %(this)s
  left join sepu.usage b on b.account_id = a.account_id and b.meter = l.meter and b.period = %(last)s
 where %(account_id)s::text is null or a.account_id = %(account_id)s
 group by o.key, a.account_id, a.external_id, a.name, a.status, a.created_at, a.expires_at, a.plan_id, p.requests_per_minute
 order by o.key {direction} nulls last, a.account_id

-- name: count_accounts
select count(*) from ({matching}) m

-- name: sum_accounts
-- Their usage in this month and the month before, by meter. Without a filter, Postgres reads no account.
select u.meter, coalesce(sum(u.committed) filter (where u.period = %(this)s), 0)::bigint as this_month,
       coalesce(sum(u.committed) filter (where u.period = %(last)s), 0)::bigint as last_month
  from sepu.usage u
  left join ({matching}) m on m.account_id = u.account_id
 where u.period in (%(this)s, %(last)s) and (%(every)s or m.account_id is not null)
 group by u.meter

-- name: oldest_account
select account_id from sepu.account order by created_at, account_id limit 1

-- name: lock_first_account
-- Held until the transaction ends, so that only one of several servers started together makes the demo account.
select pg_try_advisory_xact_lock(hashtext('sepu.first_account'), 0)
