-- Oldest first, and only the latest ones if so many are given. A filter that is null lets all pass. An event without a
-- delivery has no state.
with told as (
    select e.account_id, a.external_id, a.name, e.period, e.meter, e.threshold, e.unit_limit, e.committed,
           e.crossed_at,
           case when d.delivered_at is not null then 'delivered' when d.due_at is not null then 'due'
                when d.account_id is not null then 'dead' end as state,
           d.attempts, d.due_at, d.delivered_at, d.last_error
      from sepu.quota_event e
      join sepu.account a on a.account_id = e.account_id
      left join sepu.event_delivery d
        on d.account_id = e.account_id and d.period = e.period and d.meter = e.meter
       and d.threshold = e.threshold and d.unit_limit = e.unit_limit
), latest as (
    select account_id, external_id, name, period, meter, threshold, unit_limit, committed, crossed_at,
           state, attempts, due_at, delivered_at, last_error
      from told
     where (%(account_id)s::text is null or account_id = %(account_id)s)
       and (%(period)s::text is null or period = %(period)s)
       and (%(state)s::text is null or state = %(state)s)
     order by crossed_at desc, account_id desc, meter desc, committed desc, threshold desc
     limit %(latest)s
)
select account_id, external_id, name, period, meter, threshold, unit_limit, committed, crossed_at,
       state, attempts, due_at, delivered_at, last_error
  from latest
 order by crossed_at, account_id, meter, committed, threshold
