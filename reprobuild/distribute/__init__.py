"""What is handed over with an image: what is in it, how it was made, and the ways to somebody else's machine."""
