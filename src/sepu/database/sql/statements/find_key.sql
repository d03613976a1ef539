select is_valid from sepu.find_key(%s, %s)
