update sepu.account set status = %(status)s where account_id = %(account_id)s
