"""Worlds: maps with regions, and the vehicle that moves over them."""
