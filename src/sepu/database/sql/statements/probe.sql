select applied from sepu.probe()
