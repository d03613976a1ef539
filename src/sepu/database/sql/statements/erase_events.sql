-- With their deliveries.
delete from sepu.quota_event where account_id = %(account_id)s
