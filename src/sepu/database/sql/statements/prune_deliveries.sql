-- Of events that are older than the given days, delivered or not. The events stay.
delete from sepu.event_delivery d using sepu.quota_event e
 where e.account_id = d.account_id and e.period = d.period and e.meter = d.meter
   and e.threshold = d.threshold and e.unit_limit = d.unit_limit
   and e.crossed_at < now() - make_interval(hours => 24 * %(days)s)
