"""The sweep world: a vehicle on a fixed path over a map chooses its speed, or speed and flow."""
