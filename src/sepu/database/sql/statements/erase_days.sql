delete from sepu.usage_day where account_id = %(account_id)s
