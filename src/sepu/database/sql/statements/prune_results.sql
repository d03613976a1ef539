select results, units from sepu.prune_results(%(account_id)s, %(period)s, %(meter)s, %(days)s, %(limit)s)
