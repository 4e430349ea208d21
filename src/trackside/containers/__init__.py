"""The Docker engine of this machine: its client, and the images that it has, pulls and builds."""
