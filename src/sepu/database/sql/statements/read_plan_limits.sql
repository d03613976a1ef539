select plan_id, meter, units from sepu.plan_limit
