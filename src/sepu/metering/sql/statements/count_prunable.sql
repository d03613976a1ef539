-- Counters that may have results older than the given days: those of their months that are not all pruned.
select count(*) from sepu.usage
 where pruned < committed
   and period <= to_char((now() - make_interval(hours => 24 * %(days)s)) at time zone 'UTC', 'YYYY-MM')
