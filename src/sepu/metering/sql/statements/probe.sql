select string_agg(name || '=' || sha256, ',') from sepu.migration
