update sepu.account set plan_id = %(plan_id)s where account_id = %(account_id)s
