update sepu.event_delivery set due_at = now(), attempts = 0, last_error = null
 where due_at is null and delivered_at is null
