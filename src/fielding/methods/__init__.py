"""Methods, one file each: who is in which cluster, and which model serves whom. They know no driver."""
