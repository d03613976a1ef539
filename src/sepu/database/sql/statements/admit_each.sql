select at, outcome from sepu.admit_each(%s::text[], %s::bytea[])
