update sepu.event_delivery set due_at = null, delivered_at = now(), last_error = null
 where account_id = %(account_id)s and period = %(period)s and meter = %(meter)s and threshold = %(threshold)s
   and unit_limit = %(limit)s
