"""The side that hands out submissions: which worker has which, which workers there are, and what becomes of lost ones."""
