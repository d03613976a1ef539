-- name: count_prunable
-- The results older than the given days. Reads all results once, so the number is exact.
select count(*) from sepu.stored_result where created_at < now() - make_interval(hours => 24 * %(days)s)

-- name: next_prunable
-- The next counters in the order of the primary key, after a given one.
select account_id, period, meter from sepu.usage
 where pruned < committed
   and period <= to_char((now() - make_interval(hours => 24 * %(days)s)) at time zone 'UTC', 'YYYY-MM')
   and (account_id, period, meter) > (%(account_id)s, %(period)s, %(meter)s)
 order by account_id, period, meter
 limit %(limit)s

-- name: prune_results
select results, units from sepu.prune_results(%(account_id)s, %(period)s, %(meter)s, %(days)s, %(limit)s)

-- name: prune_deliveries
-- Deletes the deliveries of events older than the given days, delivered or not. The events stay.
delete from sepu.event_delivery d using sepu.quota_event e
 where e.account_id = d.account_id and e.period = d.period and e.meter = d.meter
   and e.threshold = d.threshold and e.unit_limit = d.unit_limit
   and e.crossed_at < now() - make_interval(hours => 24 * %(days)s)
