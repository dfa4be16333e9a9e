"""Several cores with private caches kept coherent: sharing, false sharing, data races."""
