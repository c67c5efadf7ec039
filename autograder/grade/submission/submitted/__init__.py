"""What a student handed in, read so that nothing in it harms the reader."""
