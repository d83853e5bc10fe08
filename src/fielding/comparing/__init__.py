"""Many runs beside each other: methods, values and seeds, each in a process of its own."""
