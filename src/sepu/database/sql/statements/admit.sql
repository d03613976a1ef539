select outcome from sepu.admit(%s, %s)
