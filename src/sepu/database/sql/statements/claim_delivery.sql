-- Nobody else sends it for so many seconds. Of several that saw it due, one claims it.
update sepu.event_delivery set due_at = now() + make_interval(secs => %(seconds)s), attempts = attempts + 1
 where account_id = %(account_id)s and period = %(period)s and meter = %(meter)s and threshold = %(threshold)s
   and unit_limit = %(limit)s and due_at = %(due_at)s
returning due_at, attempts
