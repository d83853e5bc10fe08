"""What travels between server and devices: slices of plans and updates as Flower's records, checked in one place."""
