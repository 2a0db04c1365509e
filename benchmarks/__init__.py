"""The long measurements; each module runs on its own and prints a table."""
