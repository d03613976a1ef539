update sepu.plan_limit set thresholds = %(thresholds)s::bigint[] where plan_id = %(plan_id)s
