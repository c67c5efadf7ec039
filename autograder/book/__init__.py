"""The lessons as a static site: pages that need no kernel, no server of their own and no network."""
