"""How each platform names what it lets a teacher download; one file each."""
