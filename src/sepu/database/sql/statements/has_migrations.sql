select to_regclass('sepu.migration') is not null
