-- What the counters know of days and events.
update sepu.usage set dated = 0, events = 0 where account_id = %(account_id)s and (dated > 0 or events > 0)
