insert into sepu.account (account_id, plan_id, name, external_id)
values (%(account_id)s, %(plan_id)s, %(name)s, %(external_id)s)
