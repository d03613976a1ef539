-- Also one that was delivered, or is past its retention.
insert into sepu.event_delivery (account_id, period, meter, threshold, unit_limit, due_at)
select account_id, period, meter, threshold, unit_limit, now()
  from sepu.quota_event
 where account_id = %(account_id)s and period = %(period)s and meter = %(meter)s and threshold = %(threshold)s
   and unit_limit = %(limit)s
on conflict (account_id, period, meter, threshold, unit_limit) do update
   set due_at = excluded.due_at, attempts = 0, delivered_at = null, last_error = null
