select count(*) filter (where d.due_at is not null) as due,
       count(*) filter (where d.due_at is null and d.delivered_at is null) as dead,
       coalesce(extract(epoch from now() - min(e.crossed_at) filter (where d.due_at is not null)), 0)::bigint as age
  from sepu.event_delivery d
  join sepu.quota_event e
    on e.account_id = d.account_id and e.period = d.period and e.meter = d.meter
   and e.threshold = d.threshold and e.unit_limit = d.unit_limit
