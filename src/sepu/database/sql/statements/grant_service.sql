-- All that a service needs, and nothing else: what a request calls, and a look at the migrations that are there.
grant usage on schema sepu to {role};
grant select on sepu.migration to {role};
grant execute on function sepu.probe to {role};
grant execute on function sepu.find_key, sepu.find_key_each to {role};
grant execute on function sepu.admit, sepu.read_usage, sepu.meter_request to {role};
grant execute on function sepu.admit_each, sepu.read_usage_each, sepu.meter_request_each to {role}
