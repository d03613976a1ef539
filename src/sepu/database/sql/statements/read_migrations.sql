select name, sha256 from sepu.migration
