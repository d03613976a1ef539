delete from sepu.api_key where account_id = %(account_id)s
