"""What projects need to be built, and the base in which they are compiled."""
