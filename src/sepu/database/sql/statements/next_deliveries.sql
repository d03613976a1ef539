-- The events that are due. Those of a counter are delivered in order: one that is not delivered yet, or that somebody is
-- about to send, lets those behind it wait.
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
