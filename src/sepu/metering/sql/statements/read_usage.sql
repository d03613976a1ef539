select * from sepu.read_usage(%s, %s)
