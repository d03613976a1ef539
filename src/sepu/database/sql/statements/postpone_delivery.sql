-- By whoever still has the claim. No seconds: it is given up.
update sepu.event_delivery set due_at = now() + make_interval(secs => %(seconds)s), last_error = %(error)s
 where account_id = %(account_id)s and period = %(period)s and meter = %(meter)s and threshold = %(threshold)s
   and unit_limit = %(limit)s and due_at = %(due_at)s
