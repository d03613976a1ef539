"""sepu (色谱): exact CIEDE2000 matching and name search over 161 traditional Chinese colours."""
