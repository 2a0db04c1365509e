"""The sweep world of the paper: a vehicle follows a fixed path over a map and chooses its speed."""
