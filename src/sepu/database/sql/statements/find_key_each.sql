select at, is_valid from sepu.find_key_each(%s::text[], %s::bytea[])
