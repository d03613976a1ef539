select * from sepu.admit(%s, %s)
