"""Names and numbers in other people's spellings: ranges, versions, addresses, keys, options. Pure."""
