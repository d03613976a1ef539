select * from sepu.read_usage_each(%s::text[], %s::bytea[])
