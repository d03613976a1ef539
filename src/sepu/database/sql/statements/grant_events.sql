-- All that the delivery of events needs. It reads no key, no result and no body.
grant usage on schema sepu to {role};
grant select on sepu.migration, sepu.quota_event to {role};
grant select (account_id, external_id, name) on sepu.account to {role};
grant select, insert, update on sepu.event_delivery to {role}
