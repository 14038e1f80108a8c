"""Error drills: runs that are killed, starved of disk, locked out or doubled, and what must hold afterwards."""
