"""One file a format: is it mine (`sniff`), and what does it hold (`load`)."""
