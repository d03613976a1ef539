-- One rotation of an account at a time. Charges go on: their foreign keys want no more than the row to stay.
select account_id from sepu.account where account_id = %(account_id)s for no key update
