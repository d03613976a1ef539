-- The accounts that were made before the month was over, and the current month.
select count(*), to_char(now() at time zone 'UTC', 'YYYY-MM')
  from sepu.account where created_at < ((%(period)s || '-01')::timestamp + interval '1 month') at time zone 'UTC'
