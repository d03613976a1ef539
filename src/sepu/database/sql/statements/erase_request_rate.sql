delete from sepu.request_rate where account_id = %(account_id)s
