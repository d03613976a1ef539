select * from sepu.meter_request(%s, %s, %s, %s, %s, %s, %s)
