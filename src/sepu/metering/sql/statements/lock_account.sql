-- One rotation of an account at a time. Charges go on: their foreign keys need no more than that the row stays.
select account_id from sepu.account where account_id = %(account_id)s for no key update
