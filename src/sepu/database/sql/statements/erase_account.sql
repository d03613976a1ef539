update sepu.account set status = 'erased', name = null, external_id = null where account_id = %(account_id)s
