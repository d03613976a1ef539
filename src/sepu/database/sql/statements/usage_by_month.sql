select period, meter, sum(committed)::bigint as units
  from sepu.usage
 where %(account_id)s::text is null or account_id = %(account_id)s
 group by period, meter
 order by period
