update sepu.usage set dated = 0 where account_id = %(account_id)s and dated > 0
