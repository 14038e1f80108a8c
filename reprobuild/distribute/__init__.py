"""Distribution of an image: its contents, origin, and transport."""
