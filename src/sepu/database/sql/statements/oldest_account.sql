select account_id from sepu.account order by created_at, account_id limit 1
