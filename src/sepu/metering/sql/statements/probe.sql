select case when current_setting('transaction_read_only') = 'off' then string_agg(name || '=' || sha256, ',') end
  from sepu.migration
