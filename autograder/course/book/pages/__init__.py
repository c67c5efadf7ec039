"""The conversion of blocks to HTML, packed pictures, a search index and preview cards."""
