-- name: list_events
-- Oldest first; a limit keeps only the latest ones. A null filter lets all pass. An event without a
-- delivery has no state.
with listed as (
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
      from listed
     where (%(account_id)s::text is null or account_id = %(account_id)s)
       and (%(period)s::text is null or period = %(period)s)
       and (%(state)s::text is null or state = %(state)s)
       and (%(since)s::timestamptz is null or crossed_at >= %(since)s)
       and (%(until)s::timestamptz is null or crossed_at < %(until)s)
     order by crossed_at desc, account_id desc, meter desc, committed desc, threshold desc
     limit %(latest)s
)
select account_id, external_id, name, period, meter, threshold, unit_limit, committed, crossed_at,
       state, attempts, due_at, delivered_at, last_error
  from latest
 order by crossed_at, account_id, meter, committed, threshold

-- name: next_deliveries
-- The events that are due. A counter's events are delivered in order: one that is not delivered yet, or that is claimed
-- by a deliverer, holds back those behind it.
select n.account_id, a.external_id, a.name, n.period, n.meter, n.threshold, n.unit_limit, n.committed, n.crossed_at,
       'due' as state, n.attempts, n.due_at, n.delivered_at, n.last_error
  from (select distinct on (d.account_id, d.period, d.meter)
               d.account_id, d.period, d.meter, d.threshold, d.unit_limit, e.committed, e.crossed_at,
               d.attempts, d.due_at, d.delivered_at, d.last_error
          from sepu.event_delivery d
          join sepu.quota_event e
            on e.account_id = d.account_id and e.period = d.period and e.meter = d.meter
           and e.threshold = d.threshold and e.unit_limit = d.unit_limit
         where d.due_at is not null
         order by d.account_id, d.period, d.meter, e.committed, d.threshold) n
  join sepu.account a on a.account_id = n.account_id
 where n.due_at <= now()
 order by n.crossed_at, n.account_id, n.meter
 limit %(limit)s

-- name: claim_delivery
-- For this many seconds, no other deliverer sends it. If several deliverers see it due, only one claims it.
update sepu.event_delivery set due_at = now() + make_interval(secs => %(seconds)s), attempts = attempts + 1
 where account_id = %(account_id)s and period = %(period)s and meter = %(meter)s and threshold = %(threshold)s
   and unit_limit = %(limit)s and due_at = %(due_at)s
returning due_at, attempts

-- name: record_delivery
update sepu.event_delivery set due_at = null, delivered_at = now(), last_error = null
 where account_id = %(account_id)s and period = %(period)s and meter = %(meter)s and threshold = %(threshold)s
   and unit_limit = %(limit)s

-- name: postpone_delivery
-- Only the deliverer that still has the claim may do this. Null seconds give the delivery up.
update sepu.event_delivery set due_at = now() + make_interval(secs => %(seconds)s), last_error = %(error)s
 where account_id = %(account_id)s and period = %(period)s and meter = %(meter)s and threshold = %(threshold)s
   and unit_limit = %(limit)s and due_at = %(due_at)s

-- name: count_deliveries
select count(*) filter (where d.due_at is not null) as due,
       count(*) filter (where d.due_at is null and d.delivered_at is null) as dead,
       coalesce(extract(epoch from now() - min(e.crossed_at)
           filter (where d.due_at is not null and isfinite(e.crossed_at))), 0)::bigint as age
  from sepu.event_delivery d
  join sepu.quota_event e
    on e.account_id = d.account_id and e.period = d.period and e.meter = d.meter
   and e.threshold = d.threshold and e.unit_limit = d.unit_limit
