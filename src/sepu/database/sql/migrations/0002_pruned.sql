-- Stored results are deleted when they are past retention. What they had charged stays accounted for:
-- committed = pruned + the units of the stored results, for each counter and forever.
alter table sepu.usage
    add column pruned integer not null default 0,   -- units whose stored results are past retention and gone
    add constraint usage_pruned_natural check (pruned >= 0),
    add constraint usage_pruned_committed check (pruned <= committed);
