select count(*) from sepu.stored_result where account_id = %(account_id)s
