delete from sepu.receipt where account_id = %(account_id)s
