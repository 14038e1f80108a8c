"""Two environments, whatever each is known by (snapshot, lock, image, the running one), and what differs."""
