select period, meter from sepu.usage where account_id = %(account_id)s order by period, meter
