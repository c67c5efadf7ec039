"""The lessons as a static site: pages without a kernel, a server of their own or network access."""
