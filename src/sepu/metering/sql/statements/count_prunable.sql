-- The counters that may have results older than the given days: of those months, and not yet pruned whole.
select count(*) from sepu.usage
 where pruned < committed
   and period <= to_char((now() - make_interval(hours => 24 * %(days)s)) at time zone 'UTC', 'YYYY-MM')
