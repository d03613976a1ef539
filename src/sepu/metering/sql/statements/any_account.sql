select exists (select from sepu.account)
