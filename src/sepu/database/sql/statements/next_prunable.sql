-- The next counters in the order of the primary key, after a given one.
select account_id, period, meter from sepu.usage
 where pruned < committed
   and period <= to_char((now() - make_interval(hours => 24 * %(days)s)) at time zone 'UTC', 'YYYY-MM')
   and (account_id, period, meter) > (%(account_id)s, %(period)s, %(meter)s)
 order by account_id, period, meter
 limit %(limit)s
