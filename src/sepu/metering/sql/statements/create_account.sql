insert into sepu.account (account_id, plan_id) values (%(account_id)s, %(plan_id)s)
