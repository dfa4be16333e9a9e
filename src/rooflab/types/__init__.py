"""The nouns: frozen data, arithmetic and versioned JSON; nothing here measures, draws or prints."""
