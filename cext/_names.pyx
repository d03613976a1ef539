def placeholder():
    return 1
