-- No external id has the form of an account's id, so this is one account at most.
select account_id from sepu.account where account_id = %(given)s or external_id = %(given)s
